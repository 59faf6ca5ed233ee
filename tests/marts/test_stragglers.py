"""`mart.stragglers` and what it asks of a node, on boards whose clocks are written by hand."""

from __future__ import annotations

import datetime as dt

import pytest

from marts.tables import at, database, mart

START = at("2026-03-02T10:00:00")
FAST, SLOW = 1980.0, 1470.0  # 0.7424 of it


def minutes(gpu: str, clocks: list[float | None], *, begin: dt.datetime = START, **given) -> list[dict]:
    """One row a minute for a board that works."""
    row = {"gpu_uuid": gpu, "accelerator_id": "h100", "sample_count": 6, "inactive_seconds": 0.0}
    row |= {"throttle_power_cap_seconds": 0.0, "throttle_power_brake_seconds": 0.0}
    row |= {"throttle_sw_thermal_seconds": 0.0, "throttle_hw_thermal_seconds": 0.0}
    return [
        row
        | {"minute_at": (when := begin + dt.timedelta(minutes=k)), "date": when.date(), "sm_clock_mean_mhz": clock}
        | given
        for k, clock in enumerate(clocks)
    ]


def stay(
    gpu: str, job: str = "j1", since: dt.datetime = START, until: str | None = "2026-03-02T11:00:00", **given
) -> dict:
    row = {"job_id": job, "attempt": 0, "gpu_uuid": gpu, "from_at": since}
    return row | {"to_at": at(until) if until else None} | given


def tables(readings: list[dict], stays: list[dict], **more) -> dict:
    hours = {(r["gpu_uuid"], r.get("node", "n1"), r.get("source", "nvml")): r for r in readings}
    rolled = [
        {"hour_at": START, "date": START.date(), "gpu_uuid": gpu, "node": node, "source": source}
        for gpu, node, source in hours
    ]
    given = {"gpu_minutes": readings, "gpu_hours": rolled, "job_gpus": stays} | more
    return {f"telemetry__{name}": rows for name, rows in given.items()}


def stragglers(*readings: list[dict], stays: list[dict] | None = None, **more) -> list[dict]:
    flat = [row for some in readings for row in some]
    held = stays if stays is not None else [stay(gpu) for gpu in sorted({r["gpu_uuid"] for r in flat})]
    return mart(database(**tables(flat, held, **more)), "stragglers")


def test_a_board_far_below_the_fastest_of_its_job_is_named_with_its_time() -> None:
    # Ten minutes as fast as the others, ten slow: two of four windows.
    slow = minutes("A", [FAST] * 10 + [SLOW] * 10)
    (row,) = stragglers(slow, minutes("B", [FAST] * 20), minutes("C", [1965.0] * 20))
    assert (row["job_id"], row["gpu_uuid"], row["boards"]) == ("j1", "A", 3)
    assert (row["windows"], row["slow_windows"], row["slow_minutes"]) == (4, 2, 10)
    assert (row["first_slow_at"], row["last_slow_at"]) == (at("2026-03-02T10:10:00"), at("2026-03-02T10:20:00"))
    assert row["worst_score_ratio"] == pytest.approx(1470 / 1980, abs=1e-6)
    assert (row["sm_clock_mhz"], row["best_sm_clock_mhz"]) == (1470.0, 1980.0)
    assert row["what"] == "SM clock below 0.75 of the fastest board of the job; no counter of the board tells why"


@pytest.mark.parametrize(("clock", "is_slow"), [(1484.9, True), (1485.0, False)])  # 0.75 * 1980 = 1485
def test_the_published_limit_is_exact(clock: float, is_slow: bool) -> None:
    assert bool(stragglers(minutes("A", [clock] * 5), minutes("B", [FAST] * 5))) == is_slow


def test_four_slow_minutes_of_five_are_no_slow_window() -> None:
    # (4 * 1470 + 1980) / 5 = 1572, which is 0.794 of 1980
    assert stragglers(minutes("A", [SLOW] * 4 + [FAST]), minutes("B", [FAST] * 5)) == []


@pytest.mark.parametrize(
    "given",
    [
        {"inactive_seconds": 1.0},  # it idled: clocks fall on purpose
        {"inactive_seconds": None},
        {"sample_count": 0},
        {"accelerator_id": "a100"},  # another model has another clock
        {"parent_gpu_uuid": "P"},
        {"source": "dcgm-exporter"},  # another collector's reading
    ],
)
def test_boards_that_cannot_be_compared_are_not(given: dict) -> None:
    assert stragglers(minutes("A", [SLOW] * 5, **given), minutes("B", [FAST] * 5)) == []


def test_boards_of_other_jobs_are_no_measure() -> None:
    assert stragglers(
        minutes("A", [SLOW] * 5), minutes("B", [FAST] * 5), stays=[stay("A", "j1"), stay("B", "j2")]
    ) == []  # fmt: skip


def test_a_window_counts_only_whole_within_the_stay() -> None:
    readings = minutes("A", [SLOW] * 5), minutes("B", [FAST] * 5)
    late = START + dt.timedelta(minutes=1)
    assert stragglers(*readings, stays=[stay("A", since=late), stay("B")]) == []
    assert stragglers(*readings, stays=[stay("A", until="2026-03-02T10:04:00"), stay("B")]) == []
    assert len(stragglers(*readings, stays=[stay("A", until="2026-03-02T10:05:00"), stay("B")])) == 1


def test_a_stay_that_nobody_ended_ends_with_its_job() -> None:
    readings = minutes("A", [FAST] * 5 + [SLOW] * 5), minutes("B", [FAST] * 10)
    held = [stay(gpu, until=None) for gpu in "AB"]
    over = {"job_id": "j1", "attempt": 0, "scheduler": "slurm", "ended_at": at("2026-03-02T10:05:00")}
    assert stragglers(*readings, stays=held, jobs=[over]) == []
    assert len(stragglers(*readings, stays=held, jobs=[over | {"ended_at": None}])) == 1


@pytest.mark.parametrize(("newest", "is_told"), [("09:59", True), ("10:00", False)])
def test_only_the_24_hours_up_to_the_newest_reading_are_looked_at(newest: str, is_told: bool) -> None:
    before = at("2026-03-01T10:00:00")  # the newest minute ends at 10:00 or 10:01 of the next day
    slow, fast = (minutes(gpu, [clock] * 5, begin=before) for gpu, clock in (("A", SLOW), ("B", FAST)))
    later = minutes("C", [FAST], begin=at(f"2026-03-02T{newest}:00"))
    held = [stay(gpu, since=before) for gpu in "AB"]
    found = stragglers(slow, fast, later, stays=held)
    assert bool(found) == is_told


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"throttle_sw_thermal_seconds": 50.0}, "held back by heat"),
        ({"throttle_power_cap_seconds": 12.0}, "held back by power"),
        ({"throttle_power_brake_seconds": 12.0, "throttle_hw_thermal_seconds": 3.0}, "held back by power and by heat"),
        (
            dict.fromkeys(
                (f"throttle_{n}_seconds" for n in ("power_cap", "power_brake", "sw_thermal", "hw_thermal")), None
            ),
            "what held it back was not read",
        ),
    ],
)
def test_the_boards_own_counters_say_why(given: dict, said: str) -> None:
    (row,) = stragglers(minutes("A", [SLOW] * 5, **given), minutes("B", [FAST] * 5))
    assert row["what"].split("; ")[1] == said
    if given.get("throttle_sw_thermal_seconds"):
        assert (row["throttle_thermal_seconds"], row["throttle_power_seconds"]) == (250.0, 0.0)


def test_the_node_of_a_straggler_is_watched() -> None:
    readings = [*minutes("A", [SLOW] * 5), *minutes("B", [FAST] * 5, node="n2")]
    given = tables(readings, [stay("A"), stay("B"), stay("A", "j0", at("2026-03-02T09:00:00"), "2026-03-02T09:30:00")])
    (row,) = mart(database(**given), "node_actions")
    assert (row["node"], row["device"], row["action"], row["reason"]) == ("n1", "A", "watch", "straggler")
    assert row["why"] == (
        "job j1: SM clock below 0.75 of the fastest board of the job; no counter of the board tells why"
    )
    assert (row["occurrences"], row["sources"]) == (1, "nvml")
    assert (row["first_seen_at"], row["last_seen_at"]) == (START, at("2026-03-02T10:05:00"))
