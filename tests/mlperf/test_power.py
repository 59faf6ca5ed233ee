"""Energy from power logs, by the arithmetic of the official summarizer."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mlperf.logs import START, run, runs, write_directory
from sources.mlperf.power import read_node, read_switch


def log(*entries: tuple[str, object, int]) -> io.BytesIO:
    rows = (
        {"namespace": "", "time_ms": START + ms, "event_type": "POINT_IN_TIME", "key": k, "value": v, "metadata": ""}
        for k, v, ms in entries
    )
    return io.BytesIO("".join(f":::MLLOG {json.dumps(row)}\n" for row in rows).encode())


def test_readings_hold_until_the_next_one() -> None:
    found = read_node(
        log(("power_measurement_start", None, 0), ("power_reading", 100, 1_000), ("power_reading", 400, 4_000))
    )
    # 100 W for one second, 400 W for three: 1,300 J over 4 s.
    assert found.mean_power_w == pytest.approx(1_300 / 4)


def test_the_stop_bounds_the_measurement_and_losses_are_counted() -> None:
    found = read_node(
        log(
            ("conversion_eff", 1.1, 0),
            ("power_measurement_start", "null", 0),
            ("power_reading", 100, 2_000),
            ("power_measurement_stop", None, 4_000),
            ("power_reading", 9_999, 6_000),
        )
    )
    assert found.mean_power_w == pytest.approx(1.1 * 100 * 2 / 4)


def test_lines_are_taken_in_order_of_time() -> None:
    found = read_node(
        log(("power_reading", 400, 4_000), ("power_reading", 100, 1_000), ("power_measurement_start", None, 0))
    )
    assert found.mean_power_w == pytest.approx(1_300 / 4)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([("power_reading", 100, 1_000)], "power_measurement_start is missing"),
        ([("power_measurement_start", None, 0)], "no power reading"),
        ([("power_measurement_start", None, 0), ("power_reading", "n/a", 9)], "no power reading"),
    ],
)
def test_a_log_without_a_measurement_says_why(entries: list[tuple[str, object, int]], reason: str) -> None:
    found = read_node(log(*entries))
    assert found.mean_power_w is None
    assert reason in found.reason


def test_a_switch_states_an_estimate() -> None:
    assert read_switch(log(("conversion_eff", 1.5, 0), ("interconnect_power_est", 200, 0))).mean_power_w == 300
    assert read_switch(log()).reason == "interconnect_power_est is missing"


def test_switches_count_and_a_run_without_power_logs_says_so(tmp_path: Path) -> None:
    folder = write_directory(tmp_path, [run(10.0), run(11.0), run(None)], benchmark="gpt3")
    for index in (0, 2):
        measured = folder / "power" / f"result_{index}"
        measured.mkdir(parents=True)
        node = log(("power_measurement_start", None, 0), ("power_reading", 1_000, 1_000))
        (measured / "node_0.txt").write_bytes(node.getvalue())
        (measured / "sw_0.txt").write_bytes(log(("interconnect_power_est", 500, 0)).getvalue())
    first, second, third = runs(tmp_path)
    assert first["energy_j"] == pytest.approx(1_500 * 600)
    assert (second["energy_j"], second["energy_reason"]) == (None, "the directory has power logs, but none of this run")
    assert (third["energy_j"], third["energy_reason"]) == (None, "the run has no time to train")
