"""`almanac`: the command line.

Belongs here: finding commands without importing them, and turning errors into one line. Does not belong here: any
command (one module each in `pipelines/commands`). Start-up stays under 0.4 s because nothing heavy is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click

COMMANDS = {
    "run": "The main job: fetch, land, publish, report.",
    "collect": "The node agent: record this machine's GPUs into a spool.",
    "ship": "Move sealed spool segments to an inbox elsewhere.",
    "ingest": "Land sealed spool segments and publish.",
    "receive": "Take Prometheus remote write into the inbox.",
    "backfill": "Load a range of time from a Prometheus server.",
    "load": "Land local raw files of any source.",
    "synthetic": "Put a made-up cluster of any size into the home.",
    "sql": "Ask the published warehouse in SQL.",
    "check": "The quality gate for CI: exit 1 when the data is bad.",
    "dismiss": "Set a refused document aside, with a reason on record.",
    "report": "Write the one-page HTML report.",
    "sources": "List sources with licence, terms and freshness.",
    "mfu": "Compute MFU and HFU from flags and print the arithmetic.",
    "export": "Write a portable copy of the warehouse.",
    "doctor": "Look at the installation and say what is wrong.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported only when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"pipelines.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Short help without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Unknown command: name the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean `almanac {near[0]}`?" if near else "; see `almanac --help`"
            ctx.fail(f"no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-almanac")
def almanac() -> None:
    """One warehouse for GPU-cluster telemetry and the public signals of the industry."""


def main() -> None:
    """Run the command line; errors become one line on stderr and exit code 1 or 2."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    sys.exit(guarded(lambda: almanac(standalone_mode=False)))


def guarded(call: Callable[[], Any]) -> int:
    """Exit code of a call: its own, 2 for a wrong call or configuration; a known error becomes one line."""
    try:
        result = call()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        advice = _advice(error)
        if advice is None:
            raise
        _say(advice)
        return 2
    return result if isinstance(result, int) else 0


# Known by name, because importing them would cost what start-up saves.
KNOWN_ERRORS = {
    "AlmanacError", "ParseError", "FetchError", "OfflineError", "NotConfiguredError", "WarehouseError", "UnitError",
    "HungDriverError", "DriverReplacedError", "NoGpusError",
}  # fmt: skip


def _advice(error: Exception) -> str | None:
    """What to tell the user; None for an error nobody expected, which keeps its traceback."""
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").split(".", maxsplit=1)[0]
        if missing in {"assets", "pipelines", "sources", "warehouse", ""}:
            return None
        return f"{missing} is not installed: this is the agent's install; `pip install '.[warehouse]'` in the checkout adds the rest"
    if type(error).__name__ == "OperationalError" and "disk" in str(error):
        return "the run history in the home's dagster/ cannot be written; make room on the disk, then run again"
    if isinstance(error, OSError):
        return f"{error.filename or 'input/output'}: {error.strerror or error}"
    return str(error) if any(kind.__name__ in KNOWN_ERRORS for kind in type(error).__mro__) else None


def _say(text: str) -> None:
    click.echo(f"almanac: {' '.join(text.split())}", err=True)


if __name__ == "__main__":
    main()
