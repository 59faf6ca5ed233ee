"""Energy as an engineer would sign it: PUE from sums, energy of a token, the integral of power.

Belongs here: the arithmetic. Does not belong here: counters and gaps (`telemetry_rollup.py`), cost.
"""

from __future__ import annotations

import polars as pl

JOULES_PER_KWH = 3.6e6
LONGEST_STEP_S = 10.0


def pue(facility: pl.DataFrame, it: pl.DataFrame) -> float | None:
    """Facility energy over IT energy of the intervals that both meters cover (ISO/IEC 30134-2); None without any.

    Frames: from_us, to_us, energy_j. Sums are divided, ratios never averaged; an interval that only one meter has
    is left out on both sides.
    """
    both = facility.join(it, on=["from_us", "to_us"], suffix="_it").drop_nulls(["energy_j", "energy_j_it"])
    whole, used = (float(both[c].sum()) for c in ("energy_j", "energy_j_it"))
    return None if used <= 0 else whole / used


def energy_per_token_j(
    gpu_energy_j: float, tokens: float, *, non_gpu_ratio: float = 1.0, pue_ratio: float = 1.0
) -> float:
    """(GPU energy x IT over GPU x PUE) / tokens, in J. Raises `ValueError` for no tokens."""
    if tokens <= 0:
        raise ValueError("energy of a token needs tokens")
    return gpu_energy_j * non_gpu_ratio * pue_ratio / tokens


def integrate_power(samples: pl.DataFrame) -> pl.DataFrame:
    """cluster, gpu_uuid, energy_j, seconds: trapezoid of power between samples, the last value held over gaps.

    samples: cluster, gpu_uuid, sampled_at, power_w. Above 10 s between samples the earlier power is held, since
    a straight line over a gap would invent a ramp. For boards without an energy counter; a check beside those with.
    """
    key = ["cluster", "gpu_uuid"]
    ordered = samples.drop_nulls("power_w").sort(*key, "sampled_at")
    seconds = pl.col("sampled_at").diff().over(key).dt.total_microseconds() / 1e6
    before = pl.col("power_w").shift(1).over(key)
    mean = pl.when(seconds <= LONGEST_STEP_S).then((pl.col("power_w") + before) / 2).otherwise(before)
    parts = ordered.select(*key, (mean * seconds).alias("energy_j"), seconds.alias("seconds"))
    return parts.group_by(key, maintain_order=True).agg(pl.col("energy_j", "seconds").sum())
