"""`almanac load`: local raw files of any source through the same street."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from pipelines.commands.options import home_option

MOST_RULES = 3
SHOWN = 200
EVENTS = ("telemetry.gpu_events",)
QUARANTINE = "ops.quarantine holds each row"


@click.command("load")
@click.argument("source_name", metavar="SOURCE")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--observed-at", help="When the data was true, where the files do not say (ISO 8601, UTC if no zone).")
@click.option("--round", "round_name", help="MLPerf round, where the path does not say (v5.1).")
@click.option("--cluster", help="Cluster the files come from, where they do not say.")
@click.option("--node", help="Node the files come from, where they do not say.")
@click.option(
    "-o",
    "--option",
    "more",
    multiple=True,
    metavar="KEY=VALUE",
    help="What SOURCE reads beside its files; `almanac sources` lists it.",
)
@home_option
def command(
    source_name: str,
    paths: tuple[Path, ...],
    observed_at: str | None,
    round_name: str | None,
    cluster: str | None,
    node: str | None,
    more: tuple[str, ...],
    home_path: str | None,
) -> int:
    """Load PATHs (files or folders) as SOURCE, then publish. Loading the same file again changes nothing.

    Exits 1 if nothing landed and nothing was there already, 2 for a wrong call.
    """
    from assets.price_tables import refresh_prices
    from assets.publish import publish_home
    from assets.reference import ensure_reference
    from assets.rollup import roll_up
    from assets.street import receive
    from pipelines.progress import told
    from sources.options import checked
    from sources.registry import source_named
    from warehouse.home import Home

    source = source_named(source_name)
    missing = [p for p in paths if not p.exists()]
    if missing:
        raise click.UsageError(f"{missing[0]} does not exist")
    named = {"observed_at": observed_at, "round": round_name, "cluster": cluster, "node": node}
    given = {k: v for k, v in named.items() if v is not None} | dict(map(_pair, more))
    documents = source.read(list(paths), checked(source, given))
    first = next(documents, None)  # a wrong call fails here, before a home is made
    if first is None:
        click.echo(f"{source.name}: 0 documents\n  no documents found in the paths")
        return 1
    home = Home.at(home_path).prepare()
    with told(f"loading {source.name}"):
        ensure_reference(home, but=source.name)
        report = receive(home, source, chain((first,), documents))
        if "market.gpu_offers" in source.tables and report.rows_landed:
            refresh_prices(home)
        if "telemetry.gpu_samples" in source.tables and report.rows_landed:
            roll_up(home)
    if report.landed or report.failed or not home.database.exists():
        with told("publishing"):
            publish_home(home)
    _show(report, paths)
    refused = sum(one.counts.rejected for one in report.landed)
    # A document that another process landed meanwhile reads nothing here, and is no failure.
    # A log without an event is good news, any other document without a row is none.
    barren = report.barren and tuple(source.tables) != EVENTS
    idle = report.failed or refused or report.dismissed or barren
    nothing = not report.rows_landed and not report.rows_known and idle
    return 1 if nothing else 0


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"-o {text!r} is not KEY=VALUE")
    return key, value


def _told(documents: int, paths: tuple[Path, ...]) -> str:
    """How many documents, and of how many files where a source reads several as one."""
    text = f"{documents} document{'' if documents == 1 else 's'}"
    files = len(set(paths))
    return f"{text} of {files} files" if 0 < documents < files and all(p.is_file() for p in paths) else text


def _show(report: object, paths: tuple[Path, ...]) -> None:
    from assets.street import StreetReport, named
    from pipelines.lines import complain, short

    assert isinstance(report, StreetReport)  # noqa: S101 - narrows the type for the checker
    click.echo(f"{report.source}: {_told(report.received, paths)}")
    for one in report.landed:
        c = one.counts
        if c.read:
            click.echo(
                f"  {one.table}: read {c.read} = landed {c.landed} + refused {c.rejected} + already there {c.duplicate}"
            )
        for refusal in one.refusals[:MOST_RULES]:
            why = short(refusal.first, QUARANTINE, SHOWN)
            click.echo(f"    refused {refusal.count} by {refusal.rule}{report.where(refusal)}: {why}")
        if len(one.refusals) > MOST_RULES:
            click.echo(f"    and by {len(one.refusals) - MOST_RULES} more rules; {QUARANTINE}")
    for line in report.complaints():
        complain(line)
    if report.barren:
        click.echo(f"  no row in {named(report.barren)}: nothing that {report.source} knows")
    elif not report.landed and not report.unreadable and not report.still_blocked and not report.dismissed:
        click.echo("  everything in them was already there")
    elif not any(one.counts.read for one in report.landed) and not any(report.complaints()):
        click.echo("  no new row: another process landed them meanwhile")
