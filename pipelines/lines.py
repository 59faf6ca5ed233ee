"""Lines of the command line: one line each, no longer than a person reads. Nothing else belongs here."""

from __future__ import annotations

import click

MOST = 300


def short(text: str, rest: str, most: int = MOST) -> str:
    """The text on one line; where it is cut, `rest` says where the whole stands."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}… ({len(line)} characters; {rest})"


def complain(text: str) -> None:
    """A complaint on standard error; what the gate saw may be long, and the warehouse keeps it."""
    click.echo(f"almanac: {short(text, 'ops.quality_results and ops.payloads hold the whole')}", err=True)
