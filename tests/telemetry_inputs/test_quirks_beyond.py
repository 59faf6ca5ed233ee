"""The ways telemetry lies that only show after a parser: in roll-ups, deltas, incidents, jobs, logs and tables.

Numbered as in the field guide. The last test says which of the 52 have no test, and why.
"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assets.idle import idle_stretches, learn_idle_power
from assets.interruptions import collapse_events
from assets.jobs import derive
from assets.reliability import shares
from assets.telemetry_clean import conform
from assets.telemetry_links import link_deltas
from assets.telemetry_rollup import rollup_hours
from sources.base import Payload
from sources.registry import source_named
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
# Quirks that cannot reach us, with the reason.
NO_TEST = {
    46: "sacct's gres/gpuutil is never asked for and never read: utilisation comes from the boards",
}


def hour(*rows: dict[str, Any], step_s: int = 10) -> dict[str, Any]:
    """The one hour that samples of one board make, `step_s` apart."""
    same = {"cluster": "c", "node": "n", "source": "nvml", "is_synthetic": False, "gpu_uuid": "GPU-a"}
    full = [
        {"sampled_at": START + dt.timedelta(seconds=k * step_s), "date": START.date()} | same | row
        for k, row in enumerate(rows)
    ]
    found = rollup_hours(conform(pl.DataFrame(full, infer_schema_length=None), GpuSample).lazy())
    return found.row(0, named=True)


def text_of(source: str, text: str, **meta: str):
    payload = Payload(source, "file:x", START, "text/plain", text.encode(), meta=meta)
    return source_named(source).parse(payload)


def test_quirk_01_a_boards_energy_is_counted_once_under_mig() -> None:
    same = {"cluster": "c", "node": "n", "source": "dcgm-exporter", "is_synthetic": False, "date": START.date()}
    rows = [
        same | {"sampled_at": START + dt.timedelta(seconds=10 * k), "gpu_uuid": uuid, "parent_gpu_uuid": parent}
        | {"power_w": 300.0, "energy_j": 3000.0 * k}
        for k in range(7)
        for uuid, parent in (("GPU-a", None), ("MIG-1", "GPU-a"), ("MIG-2", "GPU-a"))
    ]  # fmt: skip
    found = rollup_hours(conform(pl.DataFrame(rows, infer_schema_length=None), GpuSample).lazy())
    assert found["energy_j"].sum() == 300.0 * 60


def test_quirk_11_a_counter_that_restarted_loses_no_energy_and_makes_none() -> None:
    values = [50_000.0, 51_000.0, 52_000.0, 500.0, 1_500.0]  # 100 W; the driver was loaded again after 30 s
    told = hour(*({"energy_j": e, "power_w": 100.0} for e in values))
    assert (told["energy_j"], told["energy_method"], told["counter_reset_count"]) == (4000.0, "mixed", 1)


def test_quirk_12_energy_without_a_counter_is_the_trapezoid_and_says_so() -> None:
    told = hour(*({"power_w": p} for p in (100.0, 200.0, 100.0)))
    assert (told["energy_j"], told["energy_method"]) == (150.0 * 20, "trapezoid")
    nothing = hour({"temperature_c": 40.0}, {"temperature_c": 40.0})
    assert (nothing["energy_j"], nothing["energy_method"]) == (None, None)  # unknown is not 0


def test_quirk_15_a_counter_that_stands_still_under_load_is_not_believed() -> None:
    told = hour(*({"energy_j": 7.0, "power_w": 500.0} for _ in range(7)))
    assert (told["energy_j"], told["energy_method"]) == (500.0 * 60, "trapezoid")


@pytest.mark.parametrize(
    ("kind", "counter", "maximum"),
    [
        ("nvlink", "crc_flit", 65535),
        ("infiniband", "link_downed", 255),
        ("infiniband", "excessive_buffer_overrun_errors", 15),
        ("infiniband", "symbol_error", 65535),
    ],
)
def test_quirk_17_growth_of_a_counter_at_its_maximum_is_not_known(kind: str, counter: str, maximum: int) -> None:
    frame = pl.DataFrame(
        {
            "sampled_at": [START, START + dt.timedelta(minutes=1), START + dt.timedelta(minutes=2)],
            "cluster": "c", "node": "n", "source": "s", "device": "d", "link_kind": kind, "link_index": 1,
            "counter": counter, "value": [maximum - 3, maximum, maximum],
        }
    )  # fmt: skip
    assert link_deltas(frame).select("delta", "delta_status").rows() == [
        (None, "first"), (None, "saturated"), (None, "saturated"),
    ]  # fmt: skip


def test_quirk_22_a_board_at_zero_utilisation_that_draws_power_is_not_idle() -> None:
    def minute(k: int, power: float, util: float) -> dict[str, Any]:
        at = START + dt.timedelta(minutes=k)
        row = {"cluster": "c", "gpu_uuid": "GPU-a", "minute_at": at, "accelerator_id": "x", "power_mean_w": power}
        quiet = {"tensor_active_mean_ratio": 0.0, "sm_active_mean_ratio": 0.0} if power < 80 else {}
        full = {"tensor_active_mean_ratio": None, "sm_active_mean_ratio": None} | quiet
        return row | full | {"gpu_util_mean_ratio": util, "memory_used_mean_bytes": 0.0, "memory_total_bytes": 80}

    idle, odd = [minute(k, 67.0, 0.0) for k in range(60)], [minute(k, 146.0, 0.0) for k in range(60, 120)]
    frame = pl.DataFrame(idle + odd, infer_schema_length=None)
    (stretch,) = idle_stretches(frame, learn_idle_power(frame)).to_dicts()
    assert (stretch["to_us"] - stretch["from_us"]) / 60e6 == 60


def test_quirk_32_a_storm_is_one_incident() -> None:
    storm = [
        {"occurred_at": START + dt.timedelta(seconds=k), "cluster": "c", "node": "n1", "gpu_uuid": "G", "kind": "xid"}
        | {"code": 119}
        for k in range(120)
    ]
    spread = [
        {"occurred_at": START + dt.timedelta(milliseconds=100 * k), "cluster": "c", "node": "n2", "gpu_uuid": f"G{k}"}
        | {"kind": "xid", "code": 149 if k % 2 else 154}
        for k in range(8)
    ]
    found = collapse_events(pl.DataFrame(storm + spread))
    assert found.select("node", "events", "gpus").rows() == [("n1", 120, 1), ("n2", 8, 8)]  # two incidents, not 128


def test_quirk_45_a_job_name_with_delimiters_newlines_and_bad_bytes_moves_no_field() -> None:
    head = ["JobIDRaw", "JobID", "JobName", "State", "Start", "End", "AllocTRES", "ElapsedRaw"]
    times = ["2026-11-01T00:00:00", "2026-11-01T01:00:00"]
    records = [
        ["7", "7", "a|b#c\nsecond \udcff line", "COMPLETED", *times, "gres/gpu=8", "3600"],
        ["7.batch", "7.batch", "batch", "COMPLETED", *times, "gres/gpu=8", "3600"],
        ["8", "8", "runs", "RUNNING", times[0], "Unknown", "gres/gpu=4", "100"],
        ["9", "9", "waits", "PENDING", "Unknown", "Unknown", "", "0"],
    ]
    text = "\n".join("\x1f".join(record) for record in [head, *records]) + "\n"
    payload = Payload("slurm", "file:x", START, "text/plain", text.encode("utf-8", "surrogateescape"))
    out = source_named("slurm").parse(payload)
    known = lambda table: pl.DataFrame(schema=lake_schema(tables()[table])).lazy()  # noqa: E731
    jobs = derive(out.frames, known)["telemetry.jobs"].sort("job_id")
    told = jobs.select("job_id", "state", "gpus_allocated", "elapsed_seconds", "ended_at").rows()
    assert told == [
        ("7", "completed", 8.0, 3600.0, START + dt.timedelta(hours=1)),
        ("8", "running", 4.0, 100.0, None),
        ("9", "pending", None, 0.0, None),
    ]
    assert jobs["job_name"][0].startswith("a|b#c")


def test_quirk_47_seconds_and_milliseconds_a_step_are_told_apart_and_the_first_step_is_warm_up() -> None:
    def steps(unit: str, *times: float) -> pl.DataFrame:
        lines = (
            f" iteration {k:8d}/     100 | consumed samples: {k * 64:12d} | "
            f"elapsed time per iteration ({unit}): {time} | learning rate: 1.0E-04 | global batch size:    64 |"
            for k, time in enumerate(times, 1)
        )
        return text_of("training-log", "\n".join(lines) + "\n").frames["telemetry.training_steps"]

    assert steps("ms", 9000.0, 2000.0, 2010.0)["step_seconds"].to_list() == pytest.approx([9.0, 2.0, 2.01])
    assert steps("s", 9.0, 2.0, 2.01)["step_seconds"].to_list() == pytest.approx([9.0, 2.0, 2.01])
    assert steps("s", 9.0, 2.0, 2.01)["is_warm_up"].to_list() == [True, False, False]


def test_quirk_48_a_stated_mfu_is_kept_as_stated_and_never_taken_for_ours() -> None:
    line = "[rank0]:[titan] 2026-11-01 00:00:0{} - root - INFO - step: {}  loss: 2.0  memory: 40.0GiB(50.00%)  tps: 5,970  tflops: 301.00  mfu: 96.47%\n"
    frame = text_of("training-log", "".join(line.format(k, k) for k in (1, 2, 3))).frames["telemetry.training_steps"]
    # 301 TFLOPS over the 312 of an A100, whatever the board was.
    assert frame["stated_mfu_ratio"].to_list() == pytest.approx([0.9647] * 3)
    assert frame["tokens_per_s_per_gpu"].to_list() == [5970.0] * 3
    assert "mfu_ratio" not in frame.columns


def test_quirk_49_shares_are_computed_from_counts_and_not_copied_from_a_table() -> None:
    # Llama 3's table prints 30.1 % for 148 of 419 faulty GPUs.
    assert 100 * shares({"Faulty GPU": 148, "everything else": 271})["Faulty GPU"] == pytest.approx(35.322, abs=0.001)


def test_quirk_52_means_keep_boards_at_zero() -> None:
    told = hour(*({"gpu_util_ratio": u, "power_w": 100.0} for u in (0.0, 0.0, 0.9)))
    assert told["gpu_util_mean_ratio"] == pytest.approx(0.3)
    assert (told["gpu_util_max_ratio"], told["gpu_util_count"]) == (0.9, 3)


def test_each_of_the_52_has_a_test_of_its_name_or_a_reason() -> None:
    root = Path(__file__).parents[1]
    text = "\n".join(
        path.read_text()
        for folder in ("telemetry_inputs", "telemetry", "marts")
        for path in (root / folder).rglob("test_*.py")
    )
    named = {
        int(number)
        for found in re.findall(r"def test_quirk_((?:\d\d_and_)?\d\d)_", text)
        for number in found.split("_and_")
    }
    assert named | NO_TEST.keys() == set(range(1, 53))
    assert not named & NO_TEST.keys()
