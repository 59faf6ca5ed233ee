"""`almanac ingest`: land sealed spool segments, bring roll-ups up to date, publish."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.commands.options import home_option

if TYPE_CHECKING:
    from warehouse.home import Home


@click.command("ingest")
@click.option(
    "--inbox",
    "inboxes",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with sealed segments; repeat for several [default: spool/ and inbox/ of the home].",
)
@click.option(
    "--from",
    "places",
    multiple=True,
    help="Bring segments home from here first: a folder and those below it, s3://, gs://, az://; repeat for several.",
)
@click.option(
    "--accept",
    is_flag=True,
    help="Land also what is held back because it differs from the batch before, or because a node's clock was wrong.",
)
@click.option("--follow", is_flag=True, help="Go on until SIGINT or SIGTERM; `dagster dev` shows what landed.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between a round and the next look with --follow.",
)
@home_option
def command(
    inboxes: tuple[Path, ...], places: tuple[str, ...], accept: bool, follow: bool, every: float, home_path: str | None
) -> int:
    """Land every sealed segment exactly once. The segments are kept in the archive for seven days.

    Exits 1 if a batch was held back or a segment damaged; the others landed and were published.
    """
    from sources.telemetry.shipping import look_at, place_of
    from warehouse.home import Home

    # A place that is wrong is told before a home is made. A follower waits for one that is not there yet.
    for place in map(place_of, places):
        if not follow:
            look_at(place)
    home = Home.at(home_path).prepare()
    folders = [*inboxes, *([home.inbox] if inboxes and places else [])] or [home.spool, home.inbox]
    if follow:
        return _follow(home, folders, places, accept=accept, every_s=every)
    return 1 if _once(home, folders, places, accept=accept) else 0


def _follow(home: Home, folders: list[Path], places: tuple[str, ...], *, accept: bool, every_s: float) -> int:
    stop = threading.Event()

    def handle(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, before[number])  # a second one does not wait for the round

    before: dict[int, Any] = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        from pipelines.following import Follower

        follower = Follower(home, folders, places, accept, say=click.echo, complain=_complain)
        return follower.run(every_s, stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _once(home: Home, folders: list[Path], places: tuple[str, ...], *, accept: bool) -> bool:
    from assets.ingest import ingest
    from assets.publish import publish_home
    from assets.rollup import roll_up
    from pipelines.progress import told
    from sources.telemetry.shipping import collect_from, place_of

    for url in places:
        collect_from(place_of(url), home.inbox)
    with told("ingesting"):
        report = ingest(home, folders, accept=accept)
    if report.segments or not home.database.exists():
        with told("rolling up"):
            roll_up(home)
        with told("publishing"):
            publish_home(home)
    refused = sum(one.counts.rejected for one in report.landed if not one.reason)
    more = f", {refused:,} refused (ops.quarantine holds each)" if refused else ""
    click.echo(f"{report.segments} segments, {report.rows_landed:,} new rows{more}")
    for line in report.complaints():
        _complain(line)
    return report.failed or bool(report.damage)


def _complain(line: str) -> None:
    click.echo(f"almanac: {' '.join(line.split())}", err=True)
