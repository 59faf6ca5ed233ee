"""`almanac ship`: move a node's sealed segments to an inbox elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pipelines.commands.options import home_option


@click.command("ship")
@click.argument("url", metavar="PLACE")
@click.option(
    "--spool", "spool_dir", type=click.Path(path_type=Path, file_okay=False), help="Spool folder [default HOME/spool]."
)
@click.option("--follow", is_flag=True, help="Go on until interrupted, looking again every --every seconds.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 86_400),
    default=60.0,
    show_default=True,
    help="Seconds between looks with --follow.",
)
@home_option
def command(url: str, spool_dir: Path | None, follow: bool, every: float, home_path: str | None) -> int:
    """Move sealed segments to PLACE: a folder, or s3://, gs://, az:// with the credentials of its environment.

    A segment leaves the spool only once it is whole at PLACE; an interrupted run is simply started again.
    `almanac ingest --from PLACE` brings them home.
    """
    from sources.telemetry.shipping import ShipError, place_of, ship

    place = place_of(url)
    spool = spool_dir or Path(home_path or "almanac-home") / "spool"
    while True:
        try:
            done = ship(spool, place)
        except ShipError as error:
            if not follow:
                raise
            click.echo(f"almanac ship: {error}", err=True)
        else:
            click.echo(f"{done.moved} segments shipped, {done.known} were there already")
        if not follow:
            return 0
        time.sleep(every)
