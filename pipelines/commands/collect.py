"""`almanac collect`: the node agent, from the command line.

Runs with the base install alone (nvidia-ml-py and click).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import click

from pipelines.commands.options import home_option

RESTART = 75  # EX_TEMPFAIL: the supervisor should start a new process


@click.command("collect")
@click.option(
    "--spool", "spool_dir", type=click.Path(path_type=Path, file_okay=False), help="Spool folder [default HOME/spool]."
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.2, 3600),
    default=10.0,
    show_default=True,
    help="Seconds between ticks.",
)
@click.option(
    "--duration", "duration_s", type=click.FloatRange(min=0), help="Stop after so many seconds [default: go on]."
)
@click.option("--once", is_flag=True, help="Read every GPU once and stop.")
@click.option(
    "--cluster",
    envvar="ALMANAC_CLUSTER",
    default="local",
    show_default=True,
    help="Name of the cluster [env ALMANAC_CLUSTER].",
)
@click.option("--node", envvar="ALMANAC_NODE", default="", help="Name of this node [env ALMANAC_NODE, else host name].")
@click.option(
    "--hang-after",
    "hang_s",
    type=click.FloatRange(1, 3600),
    default=30.0,
    show_default=True,
    help="Give up when a driver call has not come back after so many seconds.",
)
@home_option
def command(
    spool_dir: Path | None,
    interval_s: float,
    duration_s: float | None,
    once: bool,
    cluster: str,
    node: str,
    hang_s: float,
    home_path: str | None,
) -> int:
    """Record this machine's GPUs into a spool until stopped; SIGTERM and SIGINT seal what was written.

    Exits 1 when no GPU answered, 75 when only a new process helps: a hung driver call, an exchanged driver. Let
    systemd or Kubernetes start it again.
    """
    from sources.telemetry.agent import DriverReplacedError, HungDriverError, NoGpusError, collect

    stop = threading.Event()
    before = {number: signal.signal(number, _setting(stop)) for number in (signal.SIGTERM, signal.SIGINT)}
    spool = spool_dir or Path(home_path or "almanac-home") / "spool"
    try:
        done = collect(
            spool,
            interval_s=interval_s,
            duration_s=duration_s,
            cluster=cluster,
            node=node,
            once=once,
            stop=stop,
            hang_s=hang_s,
            notify=_say,
        )
    except HungDriverError as error:
        _say(str(error))
        sys.stderr.flush()
        os._exit(RESTART)  # an ordinary exit would wait for the thread that the driver holds
    except DriverReplacedError as error:
        _say(str(error))
        return RESTART
    except NoGpusError as error:
        _say(str(error))
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    missed = f", {done.missed_ticks} ticks missed" if done.missed_ticks else ""
    click.echo(f"{done.ticks} ticks, {done.samples} samples{missed} in {spool}")
    return 0


def _setting(stop: threading.Event) -> Callable[[int, FrameType | None], None]:
    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    return handle


def _say(line: str) -> None:
    click.echo(f"almanac collect: {line}", err=True)
