"""What a straggler does to the readings of its board, and of the boards that wait for it.

Belongs here: the shares and levels. Does not belong here: which board is slow and when (`synthetic_plan.py`,
`synthetic_schedule.py`). In synchronous training every board finishes a step when the slowest does: a board slow of
itself works all the time at a lower clock; the others, and a board whose host feeds it late, wait the rest of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sources.telemetry.synthetic_jobs import Attempt, on_node
from sources.telemetry.synthetic_plan import Plan, Straggler

Floats = np.ndarray[Any, Any]
NOBODY, PEER, SLOW_BOARD, SLOW_HOST = range(4)
CLOCK_STEP_MHZ: Final = 15  # clocks of these boards come in steps of 15 MHz
# Ours, no source: SMs and power of a board that spins in a collective, and how power falls with the clock.
SPIN_SM: Final = 0.12
SPIN_POWER_W: Final = 280.0
POWER_AT_NO_CLOCK: Final = 0.35
WAIT_POWER_W: Final = 113.6  # a model resident and nothing to do, as read on a real board
_WORK: Final = ("tensor_active_ratio", "dram_active_ratio", "memory_util_ratio")
_SM: Final = ("sm_active_ratio", "sm_occupancy_ratio", "graphics_active_ratio")


@dataclass(slots=True)
class Pace:
    """For each second: the share of its usual work that gets done, and the board's part in that (PEER, …)."""

    share: Floats
    role: Floats

    def power(self, usual_w: Floats) -> Floats:
        """Power with the waiting counted."""
        rest = 1 - self.share
        return np.select(
            [self.role == PEER, self.role == SLOW_BOARD, self.role == SLOW_HOST],
            [
                usual_w * self.share + SPIN_POWER_W * rest,
                usual_w * (POWER_AT_NO_CLOCK + (1 - POWER_AT_NO_CLOCK) * self.share),
                usual_w * self.share + WAIT_POWER_W * rest,
            ],
            usual_w,
        )

    def change(self, values: dict[str, Floats]) -> None:
        """Clocks and activity, in place. NVML calls a board that spins busy: its utilisation stays."""
        waits = (self.role == PEER) | (self.role == SLOW_HOST)
        own = self.role == SLOW_BOARD
        for name in _WORK:
            worked = values[name] * np.where(waits | (own & (name != "tensor_active_ratio")), self.share, 1.0)
            values[name] = np.round(worked, 4)
        for name in _SM:
            spun = SPIN_SM * (1 - self.share) * (self.role == PEER)
            values[name] = np.round(values[name] * np.where(waits, self.share, 1.0) + spun, 4)
        utilised = values["gpu_util_ratio"] * np.where(self.role == SLOW_HOST, self.share, 1.0)
        values["gpu_util_ratio"] = np.round(utilised, 2)
        for name in ("sm_clock_mhz", "graphics_clock_mhz"):
            slower = (values[name] * self.share / CLOCK_STEP_MHZ).astype(np.int64) * CLOCK_STEP_MHZ
            values[name] = np.where(own, slower, values[name])


def paces(plan: Plan, node: int, seconds: Floats) -> dict[int, Pace]:
    """The pace of every board of a node that a straggler touches in those seconds; mostly none."""
    found: dict[int, Pace] = {}
    for one in on_node(plan, node):
        for slow in one.slow:
            begin, end = np.searchsorted(seconds, (slow.from_s, slow.to_s))
            if begin < end:
                _slow_down(found, one, node, slow, (slice(begin, end), len(seconds)))
    return found


def _slow_down(found: dict[int, Pace], one: Attempt, node: int, slow: Straggler, when: tuple[slice, int]) -> None:
    span, count = when
    for gpu in one.nodes[node]:
        pace = found.setdefault(gpu, Pace(np.ones(count), np.zeros(count, np.int8)))
        is_slow = (node, gpu) == (slow.node, slow.gpu)
        role = (SLOW_BOARD if slow.cause == "gpu" else SLOW_HOST) if is_slow else PEER
        # Of two at a time the slower decides.
        decides = pace.share[span] > 1 / slow.slowdown
        pace.role[span] = np.where(decides, role, pace.role[span])
        pace.share[span] = np.minimum(pace.share[span], 1 / slow.slowdown)
