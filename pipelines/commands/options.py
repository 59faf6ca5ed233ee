"""Options that several commands share. Nothing else belongs here."""

from __future__ import annotations

import click

home_option = click.option(
    "--home",
    "home_path",
    type=click.Path(file_okay=False),
    envvar="ALMANAC_HOME",
    help="Where everything is kept [env ALMANAC_HOME, default ./almanac-home].",
)
