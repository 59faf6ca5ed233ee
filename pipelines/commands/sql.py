"""`almanac sql`: ask the published file, read-only."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipelines.commands.options import home_option


@click.command("sql")
@click.argument("query", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    default="table",
    show_default=True,
    help="parquet needs --out.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of to the screen.")
@home_option
def command(query: str | None, form: str, out: Path | None, home_path: str | None) -> int:
    """Run one QUERY (or read it from standard input) against the published warehouse. It only reads."""
    import duckdb

    from pipelines.reader import connect, only_query, write_result
    from warehouse.home import Home

    text = query if query and query != "-" else sys.stdin.read()
    if not text.strip():
        raise click.UsageError('no query given; try almanac sql "show all tables"')
    if form == "parquet" and out is None:
        raise click.UsageError("--format parquet needs --out FILE")
    with connect(Home.at(home_path)) as con:
        try:
            write_result(con, only_query(con, text), form, out)
        except duckdb.Error as error:
            click.echo(f"almanac: {' '.join(str(error).split())}", err=True)
            return 2
    return 0
