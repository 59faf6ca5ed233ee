"""Each row once, however segments arrive: shuffled, with holes, again, in any portions, across an upgrade."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assets import ingest as ingesting
from assets import waiting
from assets.ingest import ingest
from assets.ingest_report import IngestReport
from ingest.segments import COLUMNS, SECOND_US, START_US, reading, samples
from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import Slot
from warehouse import lake as module
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.telemetry import GpuSample
from warehouse.transactions import committed
from warehouse.watermarks import marks_of

NODES, NUMBERS, TICKS = ("n1", "n2", "n3"), 5, 4


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Segments 0 to 4 of three nodes' streams, four readings each, by file name; each node's by number."""
    folder = tmp_path_factory.mktemp("streams")
    for node in NODES:
        write_stream(folder, node, [reading(tick) for tick in range(NUMBERS * TICKS)])
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.seg"))}


def write_stream(folder: Path, node: str, rows: Sequence[dict[str, float]]) -> None:
    gpu = f"GPU-{node}"
    with SpoolWriter(
        folder,
        cluster="c1",
        node=node,
        source="nvml",
        is_synthetic=False,
        columns=COLUMNS,
        slots=[Slot(gpu, 0)],
        stream_id=f"stream-of-{node}",
        clock=lambda: 0.0,
    ) as spool:
        for tick, row in enumerate(rows):
            spool.samples(START_US + tick * SECOND_US, [(gpu, row)])
            if tick % TICKS == TICKS - 1:
                spool.seal()


def house_in(folder: Path) -> Home:
    (folder / "home").mkdir()
    return Home(folder / "home").prepare()


def bring(house: Home, segments: dict[str, bytes], names: Sequence[str]) -> None:
    """Into the inbox; a name given twice lies in the spool folder as well."""
    for name in names:
        folder = house.spool if (house.inbox / name).exists() else house.inbox
        (folder / name).write_bytes(segments[name])


def rows_read(report: IngestReport) -> int:
    return sum(one.counts.read for one in report.landed if one.table == "telemetry.gpu_samples")


def runs(house: Home, node: str, kind: str = "segment") -> dict[str, int]:
    lake = Lake(house.lake)
    told = committed(
        lake.path(GpuSample), lake.open(GpuSample).version(), marks_of([f"{kind}:stream-of-{node}-00000000"])
    )
    return {mark.rpartition("@")[2]: last for mark, last in told.items() if mark.startswith("run:")}


def names_of(segments: dict[str, bytes], node: str) -> list[str]:
    return [name for name in segments if name.startswith(f"c1~{node}~")]


arrivals = st.lists(st.lists(st.integers(0, len(NODES) * NUMBERS - 1), min_size=1, max_size=12), min_size=1, max_size=5)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrivals=arrivals, portion=st.integers(1, 6), older=st.integers(0, 2))
def test_in_any_order_with_holes_and_repeats_each_row_lands_once_and_is_read_once(
    segments: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, arrivals: list[list[int]], portion: int, older: int
) -> None:
    order = list(segments)
    with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
        patch.setattr(waiting, "BATCH_BYTES", portion * len(segments[order[0]]))
        patch.setattr(ingesting, "_gate", lambda _paths: [])  # its half a second a batch is not what is asked here
        house = house_in(Path(folder))
        read = 0
        came: set[str] = set()
        for round_, numbers in enumerate(arrivals):
            names = [order[n] for n in numbers]
            bring(house, segments, names)
            with monkeypatch.context() as upgrade:
                if round_ < older:
                    upgrade.setattr(module, "marks_for", lambda ids, _told: dict.fromkeys(ids, 1))
                read += rows_read(ingest(house))
            came |= set(names)
            assert list(house.inbox.glob("*.seg")) == list(house.spool.glob("*.seg")) == []
            expected = sorted(
                (node, k * TICKS + tick)
                for node in NODES
                for k, name in enumerate(names_of(segments, node))
                if name in came
                for tick in range(TICKS)
            )
            found = samples(house).select(
                "node", ((pl.col("sampled_at").dt.epoch("us") - START_US) // SECOND_US).alias("tick")
            )
            assert found.rows() == expected
            assert read == len(expected)  # what comes again is known by its number, and not opened


def test_a_home_of_before_knows_its_segments_and_goes_on_with_runs(
    tmp_path: Path, segments: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    house, names = house_in(tmp_path), names_of(segments, "n1")
    with monkeypatch.context() as older:
        older.setattr(module, "marks_for", lambda ids, _told: dict.fromkeys(ids, 1))
        bring(house, segments, names[:2])
        ingest(house)
    assert runs(house, "n1") == {}
    bring(house, segments, names[:4])
    assert rows_read(ingest(house)) == 2 * TICKS
    assert runs(house, "n1") == {"2": 3}
    bring(house, segments, [*names, *names])
    report = ingest(house)
    assert (rows_read(report), report.segments) == (TICKS, 2 * NUMBERS)
    assert samples(house).height == NUMBERS * TICKS
    assert runs(house, "n1") == {"2": 4}


def test_a_damaged_segment_leaves_a_hole_that_its_repaired_copy_fills(
    tmp_path: Path, segments: dict[str, bytes]
) -> None:
    house, names = house_in(tmp_path), names_of(segments, "n1")
    broken = bytearray(segments[names[2]])
    broken[len(broken) // 2] ^= 1
    hurt = segments | {names[2]: bytes(broken)}
    bring(house, hurt, names)
    assert ingest(house).damage
    assert NUMBERS * TICKS - TICKS <= samples(house).height < NUMBERS * TICKS
    assert runs(house, "n1") == {"0": 1, "3": 4}
    assert runs(house, "n1", "damaged") == {}  # told singly
    bring(house, hurt, names)
    report = ingest(house)
    assert (rows_read(report), report.segments) == (0, NUMBERS)
    bring(house, segments, names)
    assert rows_read(ingest(house)) == TICKS
    assert samples(house).height == NUMBERS * TICKS
    bring(house, segments, names)
    assert rows_read(ingest(house)) == 0


def test_blocked_segments_are_a_run_of_their_own_until_a_person_accepts_them(tmp_path: Path) -> None:
    house = house_in(tmp_path)
    rows = [reading(tick, power_w=70_000.0 if 2 <= tick // TICKS <= 3 else 70.0) for tick in range(NUMBERS * TICKS)]
    write_stream(tmp_path / "spool", "n1", rows)
    paths = sorted((tmp_path / "spool").glob("*.seg"))
    segments = {path.name: path.read_bytes() for path in paths}
    names = list(segments)
    for some in (names[:2], names[2:4], names[4:]):
        bring(house, segments, some)
        ingest(house)
    assert (runs(house, "n1"), runs(house, "n1", "blocked")) == ({"0": 1, "4": 4}, {"2": 3})
    assert samples(house).height == 3 * TICKS
    bring(house, segments, names)  # judged and landed ones alike are known
    assert rows_read(ingest(house)) == 0
    assert sorted(path.name for path in house.quarantine.glob("*.seg")) == names[2:4]
    assert rows_read(ingest(house, [house.quarantine], accept=True)) == 2 * TICKS
    assert samples(house).height == NUMBERS * TICKS
    assert runs(house, "n1")["0"] == 4
    bring(house, segments, names)
    assert rows_read(ingest(house, accept=True)) == 0


def test_another_process_that_lands_a_part_of_a_batch_first_lands_it_alone(
    tmp_path: Path, segments: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    house, names = house_in(tmp_path), names_of(segments, "n1")
    bring(house, segments, names)
    aside = tmp_path / "aside"
    aside.mkdir()
    for name in names[1:3]:
        (aside / name).write_bytes(segments[name])
    found = ingesting._gate

    def and_another_is_first(paths: Sequence[Path]):
        monkeypatch.setattr(ingesting, "_gate", found)
        assert rows_read(ingest(house, [aside])) == 2 * TICKS
        return found(paths)

    monkeypatch.setattr(ingesting, "_gate", and_another_is_first)
    assert rows_read(ingest(house)) == 3 * TICKS
    assert samples(house).height == NUMBERS * TICKS
    assert runs(house, "n1")["0"] == 4
