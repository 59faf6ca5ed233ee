"""`almanac report`: the one-page HTML report."""

from __future__ import annotations

import click

from pipelines.commands.options import home_option


@click.command("report")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the page.")
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
@home_option
def command(lang: str, show: bool, home_path: str | None) -> int:
    """Write the report from the published warehouse and say where it is."""
    from pipelines.progress import told
    from warehouse.home import Home
    from warehouse.report import write_report

    with told("writing the report"):
        page = write_report(Home.at(home_path), lang)
    click.echo(str(page))
    if show:
        click.launch(page.as_uri())
    return 0
