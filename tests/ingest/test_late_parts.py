"""Parts of a row that come late: joined before it lands, filled in after, and told."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import cramjam
import duckdb
import polars as pl
import pytest

from assets.ingest import ingest
from assets.publish import publish_home
from assets.rollup import roll_up
from ingest.segments import samples, write_segment
from sources.telemetry_inputs.receiver import Receiver
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ops import QualityResult, QuarantineRecord
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_fleet import PowerReading
from warehouse.schema.telemetry_rollups import GpuHour

T0 = 1_793_491_200_000  # 2026-11-01 00:00 UTC in ms
MINUTE = 60_000


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def series(name: str, points: Sequence[tuple[int, float]], gpu: str = "a") -> bytes:
    labels: Mapping[str, str] = {"__name__": name, "UUID": f"GPU-{gpu}", "gpu": "0", "Hostname": "n1", "cluster": "c1"}
    body = b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in sorted(labels.items()))
    for at, value in points:
        body += field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at))
    return field(1, body)


class Sender:
    """A Prometheus that sends to a receiver in front of a home's inbox."""

    def __init__(self, house: Home) -> None:
        self.receiver = Receiver(house.inbox, cluster="c1", settle_s=0)

    def sends(self, *some: bytes) -> None:
        """One request; what it holds is settled at once, as after a minute of quiet."""
        self.receiver.accept(bytes(cramjam.snappy.compress_raw(b"".join(some))))
        self.receiver.settle(everything=True)


@pytest.fixture
def house(home: Path) -> Home:
    return Home(home).prepare()


@pytest.fixture
def prometheus(house: Home) -> Sender:
    return Sender(house)


def told(house: Home) -> list[tuple[object, ...]]:
    rows = samples(house)
    return rows.select(pl.col("sampled_at").dt.epoch("ms") - T0, "gpu_uuid", "power_w", "sm_clock_mhz").rows()


POWER, CLOCK, TEMPERATURE = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP"


def test_a_part_that_comes_after_its_row_landed_is_filled_in(house: Home, prometheus: Sender) -> None:
    prometheus.sends(series(POWER, [(T0, 401.5), (T0 + MINUTE, 402.5)]), series(POWER, [(T0, 99.5)], gpu="b"))
    ingest(house)
    prometheus.sends(series(CLOCK, [(T0, 1980.0)]))
    report = ingest(house)
    assert told(house) == [(0, "GPU-a", 401.5, 1980), (MINUTE, "GPU-a", 402.5, None), (0, "GPU-b", 99.5, None)]
    (landed,) = [one.counts for one in report.landed if one.table == "telemetry.gpu_samples"]
    assert (landed.read, landed.landed, landed.rejected, landed.duplicate) == (1, 0, 0, 1)
    assert list(house.inbox.glob("*.seg")) == []
    warned = Lake(house.lake).scan(QualityResult).filter(~pl.col("passed")).collect()
    assert warned.select("severity", "sample").rows() == [("warning", "1 rows filled later")]


def test_parts_that_wait_together_become_one_row_whatever_their_order(house: Home, prometheus: Sender) -> None:
    prometheus.sends(series(CLOCK, [(T0, 1980.0)]), series(POWER, [(T0, 99.5)], gpu="b"))
    prometheus.sends(series(POWER, [(T0, 401.5)]), series(CLOCK, [(T0, 1410.0)], gpu="b"))
    prometheus.sends(series(TEMPERATURE, [(T0, 55.0)]))  # a layout of its own
    report = ingest(house)
    assert told(house) == [(0, "GPU-a", 401.5, 1980), (0, "GPU-b", 99.5, 1410)]
    assert samples(house)["temperature_c"].to_list() == [55.0, None]
    (landed,) = [one.counts for one in report.landed if one.table == "telemetry.gpu_samples"]
    assert (landed.read, landed.landed, landed.rejected, landed.duplicate) == (5, 2, 0, 3)


def test_a_late_part_that_disagrees_changes_nothing(house: Home, prometheus: Sender) -> None:
    prometheus.sends(series(POWER, [(T0, 401.5)]))
    ingest(house)
    version = Lake(house.lake).open(GpuSample).version()
    prometheus.sends(series(POWER, [(T0, 333.0)]))
    ingest(house)
    assert told(house) == [(0, "GPU-a", 401.5, None)]
    assert (
        Lake(house.lake).open(GpuSample).version() == version + 1
    )  # the commit that knows the segment; no file changed


def test_a_late_part_that_cannot_be_does_not_get_in(house: Home, prometheus: Sender) -> None:
    prometheus.sends(series(POWER, [(T0, 401.5)]))
    ingest(house)
    prometheus.sends(series("DCGM_FI_DEV_FB_USED", [(T0, -5.0)]))
    ingest(house)
    assert samples(house)["memory_used_bytes"].to_list() == [None]


def test_the_hours_of_a_filled_row_are_computed_again_and_published(house: Home, prometheus: Sender) -> None:
    points = [(T0 + k * 10_000, 400.0) for k in range(361)]
    prometheus.sends(series(POWER, points))
    ingest(house)
    roll_up(house)
    prometheus.sends(series(TEMPERATURE, [(at, 55.0) for at, _ in points]))
    ingest(house)
    roll_up(house)
    after = Lake(house.lake).scan(GpuHour).sort("hour_at").collect()
    assert after["temperature_max_c"].to_list()[0] == 55.0
    publish_home(house)
    with duckdb.connect(str(house.database), read_only=True) as con:
        assert con.sql(
            "select count(*), count(power_w), count(temperature_c) from telemetry.gpu_samples"
        ).fetchall() == [(361, 361, 361)]
        unreconciled = "select count(*) from ops.loads where rows_read <> rows_landed + rows_rejected + rows_duplicate"
        assert con.sql(unreconciled).fetchall() == [(0,)]
        assert con.sql(
            "select sum(rows_landed) from ops.loads where table_name = 'telemetry.gpu_samples'"
        ).fetchall() == [(361,)]


@pytest.mark.parametrize("point", ["ingest:late-parts-filled", "land:committed", "ingest:before-retire"])
def test_a_crash_between_filling_and_landing_loses_and_doubles_nothing(
    house: Home, prometheus: Sender, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prometheus.sends(series(POWER, [(T0, 401.5)]))
    ingest(house)
    prometheus.sends(series(CLOCK, [(T0, 1980.0), (T0 + MINUTE, 1410.0)]))

    class Crash(BaseException):
        pass

    def dies(name: str) -> None:
        if name == point:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr("assets.ingest.fault_point", dies)
        with pytest.raises(Crash):
            ingest(house)
    ingest(house)
    assert told(house) == [(0, "GPU-a", 401.5, 1980), (MINUTE, "GPU-a", None, 1410)]
    assert list(house.inbox.glob("*.seg")) == []


def test_parts_of_a_meters_reading_are_joined_and_those_too_late_are_kept_with_the_reason(
    house: Home, prometheus: Sender
) -> None:
    now, mean, peak = (f"ceems_ipmi_dcmi_{name}_watts" for name in ("current", "avg", "max"))
    prometheus.sends(series(now, [(T0, 5120.0)]))
    prometheus.sends(series(mean, [(T0, 5000.0)]))
    ingest(house)
    prometheus.sends(series(peak, [(T0, 6000.0)]))
    prometheus.sends(series(now, [(T0, 5120.0)]))  # nothing new
    ingest(house)
    lake = Lake(house.lake)
    readings = lake.scan(PowerReading).select("power_w", "power_mean_w", "power_max_w").collect().rows()
    assert readings == [(5120.0, 5000.0, None)]
    (kept,) = lake.scan(QuarantineRecord).collect().to_dicts()
    assert (kept["table_name"], kept["reason"]) == (
        "telemetry.power_readings",
        "a part of this row came after the row had landed",
    )
    assert json.loads(kept["raw"])["power_max_w"] == 6000.0


def test_parts_of_another_collectors_rows_are_not_mixed(house: Home) -> None:
    """An agent writes a row at once: two of one instant are two readings, and the first stands."""
    whole = {"power_w": 400.0, "energy_j": 0.0, "temperature_c": 50, "memory_total_bytes": 1 << 30}
    write_segment(house.inbox, "n1", [0], gpus=["a"], rows={0: whole})
    write_segment(house.inbox, "n1", [0], gpus=["a"], rows={0: {"sm_clock_mhz": 1980}}, stream_id="other")
    ingest(house)
    rows = samples(house)
    assert rows.height == 1
    assert [v is None for v in rows.select("power_w", "sm_clock_mhz").row(0)].count(True) == 1
