"""`almanac sources`: what the house knows, on what terms, how fresh."""

from __future__ import annotations

import json

import click

from pipelines.commands.options import home_option


@click.command("sources")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json names more.",
)
@home_option
def command(form: str, home_path: str | None) -> int:
    """List every source with cadence, licence, terms, whether it is on, and when it last landed."""
    from pipelines.reader import connect
    from sources.options import FOR_ALL, said
    from sources.registry import all_sources
    from warehouse.home import Home

    home = Home.at(home_path)
    landed: dict[str, str] = {}
    if home.database.exists():
        with connect(home) as con:
            query = "select source, strftime(last_landed_at, '%Y-%m-%d %H:%M') from ops.sources"
            landed = {s: at for s, at in con.sql(query).fetchall() if at}
    rows = [
        {
            "source": s.name,
            "publisher": s.publisher,
            "cadence": s.cadence,
            "authority": s.authority,
            "licence": s.licence,
            "terms": s.terms,
            "state": f"off: {s.off_reason}" if s.off_reason else "on",
            "last_landed": landed.get(s.name, "never"),
            "tables": list(s.tables),
            "options": [said(name) for name in (*FOR_ALL, *s.options)],
            "homepage": s.homepage,
        }
        for s in all_sources().values()
    ]
    if form == "json":
        click.echo(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        click.echo(f"{row['source']:<24} {row['cadence']:<10} {row['authority']:<9} last landed {row['last_landed']}")
        click.echo(f"    {row['publisher']} · {row['licence']} · {row['terms']}")
        click.echo(f"    {row['state']} · feeds {', '.join(row['tables'])}")
        click.echo(f"    options of load: {', '.join(row['options'])}")
    return 0
