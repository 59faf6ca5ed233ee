"""What a Prometheus wrote that makes no row: told with metric, node and count, for `ops.quarantine`.

Belongs here: finding such samples, and how often they are told. Does not belong here: segments and the journal
(`receiver.py`), how a record ends in the quarantine (`assets/telemetry_unknown.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import polars as pl

from sources.base import ParseError
from sources.telemetry_inputs.context import Where
from sources.telemetry_inputs.metrics import SERIES, metric_map, placed, to_frames
from sources.telemetry_inputs.remote_write import Sample, series_frame

KIND: Final = "set_aside"
TELL_AGAIN_S: Final = 3600.0  # a wrong label comes with every scrape: its samples are counted, told once an hour
_FIRST_MS: Final = 946_684_800_000  # 2000-01-01: seconds taken for ms end before
_END_MS: Final = 4_102_444_800_000  # 2100-01-01: µs taken for ms begin long after
_TIME: Final = "a sample's time lies between 2000 and 2100"
_NAME: Final = "a GPU is its UUID"
_ONE: Final = "one value for a series and instant"
_READ: Final = "a sample can be read"
BROKEN: Final = (pl.exceptions.PolarsError, ValueError, OverflowError, TypeError)


@dataclass(frozen=True, slots=True)
class Aside:
    """Samples of one metric and node left out for one reason; times in ms since 1970, value and GPU of the first."""

    rule: str
    reason: str
    metric: str
    cluster: str
    node: str
    samples: int
    first_ms: int
    last_ms: int
    gpu: str | None
    value: str
    kept: str | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What is counted together."""
        return self.rule, self.metric, self.cluster, self.node

    def and_later(self, other: Aside) -> Aside:
        """Both as one."""
        first, last = min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms)
        return replace(self, samples=self.samples + other.samples, first_ms=first, last_ms=last)

    def record(self) -> dict[str, str | int | None]:
        """The row of a spool record; cluster and node stand in the segment's header."""
        return {name: value for name, value in asdict(self).items() if name not in ("cluster", "node")}


class Asides:
    """Which are due now: each at once the first time, later ones together once an hour.

    A process that is killed loses the counts of its last hour; that samples are left out was told before.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str, str, str], Aside] = {}
        self._told_s: dict[tuple[str, str, str, str], float] = {}

    def __bool__(self) -> bool:
        """Does anything wait to be told?"""
        return bool(self._held)

    def with_found(self, found: Iterable[Aside]) -> dict[tuple[str, str, str, str], Aside]:
        """What is held and what was found; nothing changes before `keep`, so that a step can be repeated."""
        held = dict(self._held)
        for one in found:
            held[one.key] = held[one.key].and_later(one) if one.key in held else one
        return held

    def due(self, held: Mapping[tuple[str, str, str, str], Aside], now_s: float, *, everything: bool) -> list[Aside]:
        """Those of `held` to be written in this step."""
        return [
            one
            for key, one in held.items()
            if everything or key not in self._told_s or now_s - self._told_s[key] >= TELL_AGAIN_S
        ]

    def keep(self, held: Mapping[tuple[str, str, str, str], Aside], written: Sequence[Aside], now_s: float) -> None:
        """The step is done: `written` is in segments, the rest of `held` waits for its hour."""
        self._told_s |= dict.fromkeys((one.key for one in written), now_s)
        self._held = {key: one for key, one in held.items() if key not in {w.key for w in written}}


def lines_of(written: Sequence[Aside]) -> list[str]:
    """A line for a person for each rule and metric."""
    together: dict[tuple[str, str], list[Aside]] = defaultdict(list)
    for one in written:
        together[one.rule, one.metric].append(one)
    return [
        f"{sum(one.samples for one in some)} samples of {metric} from {some[0].cluster}/{some[0].node}"
        f"{f' and {len(some) - 1} other nodes' if len(some) > 1 else ''} are set aside: {some[0].reason}"
        for (_, metric), some in together.items()
    ]


def is_possible(time_ms: int) -> bool:
    """May a sample have been taken then? What is outside has a wrong unit, or no date at all."""
    return _FIRST_MS <= time_ms < _END_MS


def wrong_times(samples: Sequence[Sample], where: Where) -> list[Aside]:
    """Samples of known metrics whose time is none."""
    if not samples:
        return []
    times = pl.Series("time_ms", [at for _, at, _ in samples], dtype=pl.Int64)
    series = series_frame([(labels, 0, value) for labels, _, value in samples]).with_columns(times)
    told = _told(_known(series, where), _TIME, "")
    reason = "the time {} is no instant in ms between 2000 and 2100: mind its unit"
    return [replace(one, reason=reason.format(one.first_ms)) for one in told]


def left_out(series: pl.DataFrame, is_final: pl.Series, where: Where) -> list[Aside]:
    """Samples without a GPU's UUID, and those that give an instant another value than the first.

    `is_final` is false for a sample that comes again in the next step: it is told then.
    """
    timed = series.with_columns(pl.col("at").dt.epoch("ms").alias("time_ms"), is_final.alias("final"))
    known = _known(timed, where)
    is_nameless = pl.col("gpu_uuid").is_null() & (pl.col("kind") != "power")
    nameless = known.filter(is_nameless & pl.col("final"))
    kept = known.filter(~is_nameless).with_columns(
        pl.col("value_text").first().over(SERIES).alias("kept"), pl.col("final").any().over(SERIES).alias("told")
    )
    others = kept.filter((pl.col("value_text") != pl.col("kept")) & pl.col("told"))
    return [
        *_told(nameless, _NAME, "the series names no UUID; an index says nothing after a reboot"),
        *_told(others, _ONE, "the series has two values for one instant; the first stands"),
    ]


def readable(series: pl.DataFrame, where: Where) -> tuple[pl.DataFrame, list[Aside]]:
    """Series without the samples that no row can be made of, and those. Sought by halves, so good ones cost nothing."""
    bad = _broken(series, where)
    if not bad:
        return series, []
    lines = pl.Series(bad, dtype=series.schema["line"])
    timed = series.filter(pl.col("line").is_in(lines.implode())).with_columns(
        pl.col("at").dt.epoch("ms").alias("time_ms")
    )
    told = _told(_known(timed, where), _READ, "no column holds its value")
    return series.filter(~pl.col("line").is_in(lines.implode())), told


def _broken(series: pl.DataFrame, where: Where) -> list[int]:
    try:
        to_frames(series, where, "the request", [])
    except ParseError:  # not one metric of a GPU
        return []
    except BROKEN:
        if series.height == 1:
            return [series["line"][0]]
        half = series.height // 2
        return [*_broken(series[:half], where), *_broken(series[half:], where)]
    return []


def _known(series: pl.DataFrame, where: Where) -> pl.DataFrame:
    return placed(series.join(metric_map(), on="metric", how="inner", maintain_order="left"), where)


def _told(lost: pl.DataFrame, rule: str, reason: str) -> list[Aside]:
    kept = pl.col("kept").first() if "kept" in lost.columns else pl.lit(None, pl.String).alias("kept")
    told = lost.group_by("metric", "cluster", "node", maintain_order=True).agg(
        pl.len().alias("samples"),
        pl.col("time_ms").min().alias("first_ms"),
        pl.col("time_ms").max().alias("last_ms"),
        pl.col("board_uuid").first().alias("gpu"),
        pl.col("value_text").first().alias("value"),
        kept,
    )
    return [Aside(rule=rule, reason=reason, **row) for row in told.iter_rows(named=True)]
