"""Parameters of the price index, in one place: every published index row carries them as JSON text.

Belongs here: numbers of the method page (`docs/price-index.md`). Does not belong here: any calculation. Changing a
number means a new `METHOD_VERSION`, because published values are never revised.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass

# Provider prices stay as close to their lists as the lists themselves; the index is our own statistic.
DAILY_SOURCE = "price-daily"
INDEX_SOURCE = "price-index"
METHOD_VERSION = "2026-11"
HEADLINE = "headline"


@dataclass(frozen=True, slots=True)
class Method:
    """Numbers of the method. Logarithms are natural; days are calendar days, fixings are days the series has."""

    min_panel: int = 5
    weight_cap: float = 0.30
    carry_days: int = 3
    entry_days: int = 3
    absent_fixings: int = 3
    link_share: float = 0.5
    clip_ratio: float = 1.25
    jump_ratio: float = 1.25
    peer_ratio: float = 1.10
    peers: int = 2
    shift_ratio: float = 1.8
    shift_share: float = 0.3
    shift_tolerance: float = 0.02
    shift_min_series: int = 4
    shift_days: int = 30
    book_days: int = 20
    book_min_days: int = 10
    book_sigmas: float = 3.0
    book_floor: float = 0.03
    book_hosts: int = 5
    book_reliability: float = 0.90
    cross_section_z: float = 3.5

    @property
    def clip_log(self) -> float:
        """Largest log change of one provider in one link."""
        return math.log(self.clip_ratio)

    def as_json(self) -> str:
        """All numbers as JSON text, keys in order."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


METHOD = Method()
