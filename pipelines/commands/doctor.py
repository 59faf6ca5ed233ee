"""`almanac doctor`: look at the installation and say what is wrong."""

from __future__ import annotations

import click

from pipelines.commands.options import home_option


@click.command("doctor")
@click.option("--fingerprint", is_flag=True, help="Print the content hash of every published table instead.")
@home_option
def command(fingerprint: bool, home_path: str | None) -> int:
    """Check packages, home, disk, lake, quarantine, published file, contact, sources and GPUs; mend nothing.

    Exits 1 when something must be done.
    """
    from pipelines.diagnosis import diagnose
    from warehouse.home import Home

    if fingerprint:
        from warehouse.fingerprint import fingerprint as hashes

        for table, text in hashes(Home.at(home_path).published()).items():
            click.echo(f"{text}  {table}")
        return 0
    findings = diagnose(Home.at(home_path))
    for finding in findings:
        click.echo(f"{finding.state:<5} {finding.what}: {finding.detail}")
    return 1 if any(f.state == "bad" for f in findings) else 0
