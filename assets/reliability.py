"""How often things break: MTBF with its interval, repair, availability, extrapolation, checkpoint interval.

Belongs here: the arithmetic of reliability, standard library only. Does not belong here: finding interruptions in
telemetry (`interruptions.py`), the mart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_CONVERGED = 1e-16


@dataclass(frozen=True, slots=True)
class Mtbf:
    """Mean time between incidents in hours, with the interval of a Poisson count. None is not bounded."""

    incidents: int
    hours: float
    mean_h: float | None
    low_h: float
    high_h: float | None
    confidence: float


def chi_square_quantile(probability: float, degrees: float) -> float:
    """Quantile of the chi-square distribution, to a relative 1e-10, by bisection on the incomplete gamma function."""
    if not 0 < probability < 1 or degrees <= 0:
        raise ValueError(f"no chi-square quantile for probability {probability} and {degrees} degrees of freedom")
    low, high = 0.0, max(10.0, 2 * degrees)
    while _lower_gamma(degrees / 2, high / 2) < probability:
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _lower_gamma(degrees / 2, middle / 2) < probability else (low, middle)
    return (low + high) / 2


def _lower_gamma(shape: float, x: float) -> float:
    """Regularised lower incomplete gamma function P(shape, x): series below shape + 1, continued fraction above."""
    if x <= 0:
        return 0.0
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        step = shape
        while abs(term) > _CONVERGED * abs(total):
            step += 1
            term *= x / step
            total += term
        return scale * total
    tiny = 1e-300
    b = x + 1 - shape
    c, d = 1 / tiny, 1 / b
    fraction = d
    for i in range(1, 100_000):
        a = -i * (i - shape)
        b += 2
        d = a * d + b
        d = 1 / (d if abs(d) > tiny else tiny)
        c = b + a / c
        c = c if abs(c) > tiny else tiny
        fraction *= d * c
        if abs(d * c - 1) < _CONVERGED:
            break
    return 1 - scale * fraction


def mtbf(incidents: int, hours: float, confidence: float = 0.90) -> Mtbf:
    """MTBF = operating hours / incidents, with the exact Poisson interval.

    [T / (chi2((1+c)/2, 2k+2) / 2), T / (chi2((1-c)/2, 2k) / 2)]. No incident gives a lower bound only, at
    (1+c)/2: about T/3 for 90 %. hours: of the system as a whole. Raises `ValueError` for negative input.
    """
    if incidents < 0 or hours < 0:
        raise ValueError(f"incidents ({incidents}) and hours ({hours}) cannot be negative")
    tail = (1 - confidence) / 2
    low = hours / (chi_square_quantile(1 - tail, 2 * incidents + 2) / 2)
    if incidents == 0:
        return Mtbf(0, hours, None, low, None, confidence)
    high = hours / (chi_square_quantile(tail, 2 * incidents) / 2)
    return Mtbf(incidents, hours, hours / incidents, low, high, confidence)


def extrapolate_mtbf(mean_h: float, from_gpus: float, to_gpus: float) -> float:
    """MTBF at another size, incidents taken as independent and as many for each GPU (arXiv:2407.21783)."""
    return mean_h * from_gpus / to_gpus


def availability(mean_h: float, repair_h: float) -> float:
    """MTBF / (MTBF + MTTR), 0-1."""
    return mean_h / (mean_h + repair_h)


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Each class's share of all counted incidents, 0-1: from counts, whatever percentage was printed beside them."""
    total = sum(counts.values())
    if total <= 0:
        raise ValueError("there is nothing to take shares of")
    return {name: count / total for name, count in counts.items()}


def checkpoint_interval_s(cost_s: float, mtbf_s: float, method: Literal["young", "daly"] = "daly") -> float:
    """Time between checkpoints that loses least: Young sqrt(2*C*M), or Daly's higher-order estimate.

    Daly: sqrt(2CM) * (1 + sqrt(C/2M)/3 + (C/2M)/9) - C for C < 2M, else M. cost_s: time one checkpoint holds
    the training up.
    """
    if cost_s <= 0 or mtbf_s <= 0:
        raise ValueError("the cost of a checkpoint and the MTBF must be above 0")
    young = math.sqrt(2 * cost_s * mtbf_s)
    if method == "young":
        return young
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = cost_s / (2 * mtbf_s)
    return young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost_s


def effective_time_ratio(nodes: float, failures_per_node_day: float, restart_s: float, checkpoint_s: float) -> float:
    """Share of run time that makes progress: 1 - N * r * (u0 + dt/2), times in days (arXiv:2410.21680).

    An approximation for few failures; below 0 it says that the run makes no progress, and 0 is given.
    """
    return max(0.0, 1 - nodes * failures_per_node_day * (restart_s + checkpoint_s / 2) / 86_400)
