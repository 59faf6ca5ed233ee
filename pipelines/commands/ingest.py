"""`almanac ingest`: land sealed spool segments, bring roll-ups up to date, publish."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pipelines.commands.options import home_option


@click.command("ingest")
@click.option(
    "--inbox",
    "inboxes",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with sealed segments; repeat for several [default: spool/ and inbox/ of the home].",
)
@click.option(
    "--from", "places", multiple=True, help="Bring segments home from here first: folder, s3://, gs://, az://."
)
@click.option("--accept", is_flag=True, help="Land also batches held back because they differ from the one before.")
@click.option("--follow", is_flag=True, help="Go on until interrupted, looking again every --every seconds.")
@click.option("--every", default=60.0, show_default=True, help="Seconds between looks with --follow.")
@home_option
def command(
    inboxes: tuple[Path, ...], places: tuple[str, ...], accept: bool, follow: bool, every: float, home_path: str | None
) -> int:
    """Land every sealed segment exactly once. The segments are kept in the archive for seven days."""
    from sources.telemetry.shipping import collect_from, place_of
    from warehouse.home import Home

    home = Home.at(home_path).prepare()
    while True:
        for url in places:
            collect_from(place_of(url), home.inbox)
        failed = _once(home.root, inboxes, accept=accept)
        if not follow:
            return 1 if failed else 0
        time.sleep(every)


def _once(root: Path, inboxes: tuple[Path, ...], *, accept: bool) -> bool:
    from assets.ingest import ingest
    from assets.publish import publish_home
    from assets.rollup import roll_up
    from pipelines.progress import told
    from warehouse.home import Home

    home = Home(root)
    with told("ingesting"):
        report = ingest(home, list(inboxes) or None, accept=accept)
    if report.segments or not home.database.exists():
        with told("rolling up"):
            roll_up(home)
        with told("publishing"):
            publish_home(home)
    click.echo(f"{report.segments} segments, {report.rows_landed:,} new rows")
    for line in report.complaints():
        click.echo(f"almanac: {' '.join(line.split())}", err=True)
    return report.failed
