"""`almanac check`: the quality gate for CI."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.options import home_option

SHOWN = 300


@click.command("check")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JUnit XML.")
@home_option
def command(junit: Path | None, home_path: str | None) -> int:
    """Validate every published table and report batches that were blocked. Exits 1 when a critical rule is broken."""
    from pipelines.progress import told
    from warehouse.home import Home
    from warehouse.quality.audit import audit
    from warehouse.quality.junit import write_junit

    home = Home.at(home_path)
    with told("checking"):
        findings = audit(home)
    if junit is not None:
        write_junit(findings, junit)
    broken = [f for f in findings if not f.passed and f.severity == "critical"]
    warned = [f for f in findings if not f.passed and f.severity == "warning"]
    for severity, some in (("broken", broken), ("warning", warned)):
        for finding in some:
            click.echo(f"{severity}: {finding.table}: {finding.rule}: {_short(finding.sample)}")
            if finding.remedy:
                click.echo(f"  {finding.remedy}")
    click.echo(
        f"{len(findings)} rules on {len({f.table for f in findings})} tables: {len(broken)} broken, {len(warned)} warnings"
    )
    return 1 if broken else 0


def _short(sample: str) -> str:
    """Enough to see what is meant; JUnit holds the whole."""
    text = " ".join(sample.split()) or "no sample"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(sample)} characters; --junit writes them all)"
