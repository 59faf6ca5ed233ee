"""What happens in the synthetic cluster: a lost GPU, a throttled one, a failing memory row, a decaying NVLink.

Belongs here: incidents, events, link counters, inventory and node states as spool records. Does not belong
here: the samples (`synthetic.py`), chance failures (`synthetic_failures.py`). In the demonstration one incident of
each class of the Llama 3 interruption table (GPU, HBM3, software, network) is fixed, because a day of 16 GPUs would
see none; a mixed workload meets what chance brings, and decaying links.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sources.telemetry.synthetic_failures import failure_records, failures, outages
from sources.telemetry.synthetic_jobs import on_node
from sources.telemetry.synthetic_plan import Plan

HOUR: Final = 3600
# node, GPU, seconds from the plan's start
LOST: Final = (0, 3, 14 * HOUR, 15 * HOUR)
THROTTLED: Final = (1, 5, 9 * HOUR)
HBM_ERROR: Final = (1, 6, 11 * HOUR + 1200)
DECAYING: Final = (1, 2, 7)  # node, GPU, link
DECAY_DOUBLES_S: Final = 3 * HOUR  # ours: from a few errors to what a threshold sees within a day
DECAY_STEADY_S: Final = 48 * HOUR  # from then on it errs at the pace it has reached
NODES_PER_DECAY: Final = 64  # ours: in a mixed workload one link in so many nodes decays, and at least one
NVLINKS: Final = 18
COUNTERS: Final = ("replay", "recovery", "crc_flit", "crc_data")
ABSENT: Final = (
    "module_power_w",
    "fan_speed_ratio",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "retired_pages",
)
Told = tuple[int, str, dict[str, Any]]  # time in µs, record kind, row

# node, GPU, second, XID, severity, action in the catalogue's word, link, message
_XIDS: Final = (
    (0, 0, 6 * HOUR + 1795, 31, "error", "RESTART_APP", None, "GPU memory page fault"),
    (1, 6, HBM_ERROR[2], 94, "error", "RESTART_APP", None, "Contained memory error"),
    (1, 6, HBM_ERROR[2] + 1, 63, "info", "IGNORE", None, "GPU memory remapping event"),
    (0, 3, LOST[2], 79, "fatal", "RESTART_BM", None, "GPU has fallen off the bus"),
    (1, 2, 17 * HOUR + 2400, 74, "error", "WORKFLOW_NVLINK_ERR", DECAYING[2], "NVLink error"),
)


def records(plan: Plan, node: int) -> Iterator[Told]:
    """Every record of a node inside the plan's window, in order of time."""
    last = plan.start_us + int(plan.seconds * 1e6)
    told: list[Iterator[Told]] = [_inventory(plan, node), iter(sorted(_events(plan, node), key=_time))]
    told += [_node_states(plan, node), _links(plan, node), _decays(plan, node)]
    told.append(iter(sorted(failure_records(plan, node), key=_time)))
    yield from (item for item in heapq.merge(*told, key=_time) if item[0] < last)


def _time(told: Told) -> int:
    return told[0]


def decaying(plan: Plan) -> list[tuple[int, int, int]]:
    """Node, GPU and link of every link that decays."""
    if plan.workload == "demo":
        return [DECAYING]
    chance = random.Random(f"{plan.seed}/{plan.cluster}/links")  # noqa: S311 - seeded on purpose
    nodes = sorted(chance.sample(range(plan.nodes), max(1, plan.nodes // NODES_PER_DECAY)))
    return [(node, chance.randrange(plan.gpus), chance.randrange(NVLINKS)) for node in nodes]


def _at(plan: Plan, second: float) -> int:
    return plan.start_us + round(second * 1e6)


def _inventory(plan: Plan, node: int) -> Iterator[Told]:
    for gpu in range(plan.gpus):
        device = plan.gpu_uuid(node, gpu)
        row = {
            "valid_from": plan.start_us,
            "gpu_uuid": device,
            "gpu_index": gpu,
            "gpu_serial": f"SYN{node:04d}{gpu:02d}",
            "accelerator_id": "nvidia-h100-sxm5-80gb",
            "gpu_name": "NVIDIA H100 80GB HBM3",
            "pci_bus_id": f"00000000:{0x1B + 0x11 * gpu:02X}:00.0",
            "driver": "580.105.08",
            "memory_total_bytes": 81559 << 20,
            "power_limit_w": 700.0,
            "nvlink_count": NVLINKS,
            "rack": f"rack-{node // 4 + 1:02d}",
            "slot": str(node % 4 + 1),
        }
        yield plan.start_us, "inventory", row
        for column in ABSENT:
            why = {"from_at": plan.start_us, "device": device, "table_name": "gpu_samples"}
            yield plan.start_us, "null_reason", why | {"column_name": column, "reason": "not_supported"}


def _events(plan: Plan, node: int) -> Iterator[Told]:
    if plan.workload != "demo":
        return
    for at_node, gpu, second, code, severity, action, link, message in _XIDS:
        if at_node != node or gpu >= plan.gpus:
            continue
        device = plan.gpu_uuid(node, gpu)
        row = {
            "occurred_at": _at(plan, second),
            "device": device,
            "gpu_uuid": device,
            "kind": "xid",
            "event_id": str(code) if link is None else f"{code}/link{link}",
            "code": code,
            "severity": severity,
            "action": action,
            "link_index": link,
            "message": message,
        }
        yield _at(plan, second), "gpu_event", row
    at_node, gpu, gone, back = LOST
    if at_node == node and gpu < plan.gpus:
        device = plan.gpu_uuid(node, gpu)
        for kind, second, severity in (("lost", gone, "fatal"), ("returned", back, "info")):
            row = {"occurred_at": _at(plan, second), "device": device, "gpu_uuid": device, "kind": kind}
            yield _at(plan, second), "gpu_event", row | {"event_id": kind, "severity": severity}
        why = {"from_at": _at(plan, gone), "to_at": _at(plan, back), "device": device, "table_name": "gpu_samples"}
        yield _at(plan, back), "null_reason", why | {"column_name": "*", "reason": "lost"}


def _node_states(plan: Plan, node: int) -> Iterator[Told]:
    states: list[tuple[float, str, str | None]] = [(0, "allocated", None)]
    if plan.workload != "demo":
        states = _states_by_use(plan, node)
    elif node == LOST[0]:
        states += [(LOST[2], "drain", "GPU has fallen off the bus"), (LOST[3], "idle", None)]
        states += [(LOST[3] + 900, "allocated", None)]
    for second, state, reason in states:
        row = {"valid_from": _at(plan, second), "state": state, "reason": reason}
        yield _at(plan, second), "node_state", row


def _states_by_use(plan: Plan, node: int) -> list[tuple[float, str, str | None]]:
    """As a scheduler tells it: drained while it is repaired, else by how many of its boards are held."""
    turns: list[tuple[float, int, str, int]] = [(0.0, 0, "", 0)]
    for one in on_node(plan, node):
        held = len(one.nodes[node])
        turns += [(one.from_s, held, "", 0), (one.to_s, -held, "", 0)]
    for failure in failures(plan, node):
        turns += [(failure.from_s, 0, failure.cause.name, 1), (failure.to_s, 0, failure.cause.name, -1)]
    states: list[tuple[float, str, str | None]] = []
    held, reasons = 0, Counter[str]()
    for second, more, reason, opens in sorted(turns, key=lambda t: t[0]):
        held += more
        reasons[reason] += opens
        broken = [name for name, open_ in reasons.items() if open_]
        free = "idle" if held == 0 else "allocated" if held == plan.gpus else "mixed"
        now = ("drain", broken[-1]) if broken else (free, None)
        if states and states[-1][0] == second:
            states.pop()
        if not states or states[-1][1:] != now:
            states.append((second, *now))
    return states


def _links(plan: Plan, node: int) -> Iterator[Told]:
    """Every counter each hour."""
    decays = set(decaying(plan))
    is_demo = plan.workload == "demo"
    away = {gpu: [] if is_demo else outages(plan, node, gpu) for gpu in range(plan.gpus)}
    if is_demo and node == LOST[0]:
        away[LOST[1]] = [LOST[2:]]
    for hour in range(-(-plan.seconds // HOUR)):
        for gpu in range(plan.gpus):
            if any(from_s <= hour * HOUR < to_s for from_s, to_s in away[gpu]):
                continue
            device = plan.gpu_uuid(node, gpu)
            for link in range(NVLINKS):
                for counter in COUNTERS:
                    value = _decay(counter, hour * HOUR) if (node, gpu, link) in decays else 0
                    yield _link(plan, hour * HOUR, device, link, (counter, value))


def _decays(plan: Plan, node: int) -> Iterator[Told]:
    """A decaying link's counters whenever they grew (looked at every minute)."""
    for at_node, gpu, link in decaying(plan):
        if at_node != node or gpu >= plan.gpus:
            continue
        device = plan.gpu_uuid(node, gpu)
        before = {counter: _decay(counter, 0) for counter in COUNTERS}
        for second in range(60, int(plan.seconds), 60):
            for counter in COUNTERS:
                value = _decay(counter, second)
                if value != before[counter] and second % HOUR:
                    yield _link(plan, second, device, link, (counter, value))
                before[counter] = value


def _link(plan: Plan, second: int, device: str, link: int, counted: tuple[str, int]) -> Told:
    row = {"sampled_at": _at(plan, second), "device": device, "link_kind": "nvlink", "link_index": link}
    return _at(plan, second), "link_counter", row | {"counter": counted[0], "value": counted[1]}


def _decay(counter: str, second: float) -> int:
    """Errors of a decaying link so far: a few in the morning, doubling every three hours, steady after two days."""
    scale = {"replay": 2.0, "recovery": 0.2, "crc_flit": 6.0, "crc_data": 1.0}[counter]
    grown = 2 ** (min(second, DECAY_STEADY_S) / DECAY_DOUBLES_S)
    steady = grown * math.log(2) / DECAY_DOUBLES_S * max(0.0, second - DECAY_STEADY_S)
    return int(scale * (grown - 1 + steady))
