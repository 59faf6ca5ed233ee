"""`almanac dismiss`: set a refused document or batch aside, with a reason that stays on record."""

from __future__ import annotations

import click

from pipelines.commands.options import home_option


@click.command("dismiss")
@click.argument("sha256", required=False)
@click.option("--load-id", help="A blocked batch of telemetry by its load id, in place of a document.")
@click.option("--reason", required=True, help="Why; it stays on record.")
@click.option("--undo", is_flag=True, help="Take it up again: it counts as a failure once more.")
@home_option
def command(sha256: str | None, load_id: str | None, reason: str, undo: bool, home_path: str | None) -> int:
    """Set aside the refused document whose SHA-256 begins with SHA256, so that `check` and `run` no longer fail on it.

    Its bytes stay in the archive, and every decision stays in ops.dismissals with its reason and time. The document
    of its stream before it counts again; a new one counts as ever.
    """
    from assets.dismissals import decide, refused_documents, refused_load
    from assets.publish import publish_home
    from pipelines.progress import told
    from warehouse.home import Home

    if bool(sha256) == bool(load_id):
        raise click.UsageError(
            "give the SHA-256 of a document, or --load-id with the id of a batch; `almanac check` names both"
        )
    if not reason.strip():
        raise click.UsageError("--reason is empty; say why, for whoever reads the record later")
    home = Home.at(home_path)
    home.published()
    subjects = refused_load(home, load_id) if load_id else refused_documents(home, sha256 or "")
    changed = decide(home, subjects, "restored" if undo else "dismissed", reason.strip())
    if changed:
        with told("publishing"):
            publish_home(home)
    for subject in subjects:
        state = "taken up again" if undo else "dismissed"
        again = "" if subject in changed else " already"
        click.echo(f"{subject.name} of {subject.source}{again} {state}; it had been refused: {subject.refusal}")
    return 0
