"""`almanac check`: the quality gate for CI."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.options import home_option


@click.command("check")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JUnit XML.")
@home_option
def command(junit: Path | None, home_path: str | None) -> int:
    """Validate every published table, and see whether the newest document or batch of each source could be landed.

    Exits 1 when a critical rule is broken or the newest one was refused; warnings leave it at 0.
    """
    from pipelines.lines import short
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
            sample = short(finding.sample, "--junit writes them all") or "no sample"
            click.echo(f"{severity}: {finding.table}: {finding.rule}: {sample}")
            if finding.remedy:
                click.echo(f"  {finding.remedy}")
    click.echo(
        f"{len(findings)} rules on {len({f.table for f in findings})} tables: {len(broken)} broken, {len(warned)} warnings"
    )
    return 1 if broken else 0
