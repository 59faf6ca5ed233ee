"""`almanac export`: a copy of the warehouse that works on another machine."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.options import home_option


@click.command("export")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("almanac-export"),
    show_default=True,
    help="Folder to write into; what an export wrote there before is replaced.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["duckdb", "parquet", "csv", "xlsx"]),
    default="duckdb",
    show_default=True,
    help="One file, a file for each table, or one workbook.",
)
@click.option("--all", "everything", is_flag=True, help="Include sources whose licence forbids giving rows to others.")
@click.option("--overwrite", is_flag=True, help="Replace also files of the same name that no export wrote.")
@home_option
def command(folder: Path, form: str, everything: bool, overwrite: bool, home_path: str | None) -> int:
    """Write tables as one DuckDB file, as Parquet or CSV files, or as one workbook. Raw samples are copied too."""
    from pipelines.progress import told
    from warehouse.export import export
    from warehouse.home import Home

    with told("exporting"):
        written = export(Home.at(home_path), folder, form, everything=everything, overwrite=overwrite)
    click.echo(f"{len(written)} files in {folder}")
    return 0
