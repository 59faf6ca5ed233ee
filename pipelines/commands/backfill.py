"""`almanac backfill`: a range of time from a Prometheus that already scrapes GPU exporters."""

from __future__ import annotations

import datetime as dt
import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from pipelines.commands.options import home_option

if TYPE_CHECKING:
    from assets.street import StreetReport
    from sources.base import Payload

DEFAULT_PORT = re.compile(r"^(http://[^/]+):80(?=/|$)|^(https://[^/]+):443(?=/|$)")  # the archive's links lack it
MOST_AT_ONCE = 64 << 20  # answers that land together; the next ones are asked for after that


@click.command("backfill")
@click.argument("url", metavar="URL")
@click.option("--from", "start_text", required=True, help="First instant (ISO 8601, UTC if no zone).")
@click.option("--to", "end_text", help="First instant no longer wanted [default: now].")
@click.option(
    "--step", "step_s", type=click.IntRange(1, 3600), default=60, show_default=True, help="Seconds between points."
)
@click.option(
    "--chunk", "chunk_s", type=click.IntRange(1), default=3600, show_default=True, help="Seconds that one query spans."
)
@click.option("--metrics", help="Names to ask for, a regular expression [default: all known GPU metrics].")
@click.option("--cluster", envvar="ALMANAC_CLUSTER", help="Cluster of series that name none [env ALMANAC_CLUSTER].")
@click.option("--again", is_flag=True, help="Ask also for chunks whose answer is in the archive.")
@home_option
def command(
    url: str,
    start_text: str,
    end_text: str | None,
    step_s: int,
    chunk_s: int,
    metrics: str | None,
    cluster: str | None,
    again: bool,
    home_path: str | None,
) -> int:
    """Load GPU metrics of a range of time from the Prometheus at URL, in bounded chunks, then publish.

    Interrupted, it goes on where it stopped when it is called again. ALMANAC_PROMETHEUS_TOKEN is sent as bearer token.
    """
    from assets.publish import publish_home
    from assets.rollup import roll_up
    from assets.street import receive
    from pipelines.progress import told
    from sources.base import FetchError
    from sources.http import HttpWeb
    from sources.registry import source_named
    from sources.telemetry_inputs.prometheus import TOKEN_VARIABLE
    from sources.telemetry_inputs.prometheus_range import METRICS, Asking, asked, back_fill
    from warehouse.archive import Archive
    from warehouse.home import Home

    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    start, end = _instant("--from", start_text), _instant("--to", end_text) if end_text else now
    _check_url(url)
    if not start < end <= now + dt.timedelta(seconds=step_s):
        raise click.UsageError("--from must lie before --to, and --to not in the future")
    if chunk_s < step_s:
        raise click.UsageError(
            f"--chunk {chunk_s} is shorter than --step {step_s}: a query must hold at least one step"
        )
    home = Home.at(home_path)
    source = source_named("prometheus")
    kept = [] if again or not home.archive.is_dir() else Archive(home.archive).of_source(source.name)
    landed = {_key(one.url, one.meta.get("cluster"), asked(one.url)) for one in kept if one.outcome == "landed"}
    asking = Asking(
        url,
        step_s,
        metrics or METRICS,
        os.environ.get(TOKEN_VARIABLE, ""),
        {"cluster": cluster} if cluster else None,
        lambda parameters: _key(url, cluster, parameters) in landed,
    )
    done, problem = [], ""
    with HttpWeb() as web, told("asking"):
        try:
            for some in _portions(back_fill(web, asking, start, end, chunk_s=chunk_s)):
                # A home is made only now. What came before an error counts.
                done.append(receive(home.prepare(), source, some))  # noqa: PERF401
        except FetchError as error:
            problem = str(error)
    if problem and not done:
        click.echo(f"almanac: {problem}", err=True)
        return 1
    if any(report.landed for report in done):
        with told("rolling up"):
            roll_up(home)
    if done or not home.database.exists():
        with told("publishing"):
            publish_home(home.prepare())
    new, known = sum(r.rows_landed for r in done), sum(r.rows_known for r in done)
    refused = sum(one.counts.rejected for report in done for one in report.landed)
    click.echo(
        f"{sum(r.received for r in done)} answers, {new:,} new rows, {known:,} already there"
        + (f", {refused:,} refused" if refused else "")
    )
    for line in dict.fromkeys([*(line for report in done for line in report.complaints()), *_refusals(done)]):
        click.echo(f"almanac: {' '.join(line.split())}", err=True)
    if problem:
        click.echo(f"almanac: {problem}; what came before has landed: call it again to go on", err=True)
    nothing = refused and not new and not known
    return 1 if problem or nothing or any(report.failed for report in done) else 0


def _key(url: str, cluster: str | None, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """What tells two answers apart. url: of the server or of its answer; user name and password do not count."""
    from sources.http_addresses import clean_url
    from sources.telemetry_inputs.prometheus_range import PATH

    server = clean_url(url).partition("?")[0].rstrip("/").removesuffix(PATH).rstrip("/")
    server = DEFAULT_PORT.sub(r"\1\2", server)
    return server, cluster or "", *(parameters.get(name, "") for name in ("query", "start", "end", "step"))


def _check_url(url: str) -> None:
    from sources.http_addresses import clean_url

    try:
        parts = urllib.parse.urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise click.UsageError(f"{clean_url(url)} is no address of a Prometheus, such as http://prometheus:9090")


def _refusals(done: Iterable[StreetReport]) -> Iterator[str]:
    for one in (landed for report in done for landed in report.landed):
        for refusal in one.refusals:
            yield f"{one.table}: refused {refusal.count} by {refusal.rule}: {refusal.first}"


def _portions(payloads: Iterable[Payload]) -> Iterator[list[Payload]]:
    """Payloads that land together; what came before an error lands, too."""
    portion: list[Payload] = []
    size = 0
    try:
        for payload in payloads:
            portion.append(payload)
            size += len(payload.read())
            if size >= MOST_AT_ONCE:
                yield portion
                portion, size = [], 0
    except Exception:
        if portion:
            yield portion
        raise
    if portion:
        yield portion


def _instant(option: str, text: str) -> dt.datetime:
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option} {text!r} is not an ISO 8601 instant, such as 2026-09-01T00:00:00Z") from None
    return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
