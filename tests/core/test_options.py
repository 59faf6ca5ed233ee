"""Words beside the files of `almanac load`: one that the source does not read, or a value that does not fit, is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from sources.base import AlmanacError
from sources.options import FOR_ALL, OptionError, checked
from sources.registry import all_sources, source_named
from tests.core.console import Console
from tests.core.test_bad_input import one_line


class Asked(Mapping[str, str]):
    """Options that are all empty, and remember which were looked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("name", all_sources())
def test_a_source_looks_for_no_option_that_it_does_not_name(name: str, tmp_path: Path) -> None:
    for file in ("a.txt", "a.json", "a.csv", "a.toml", "a.md", "a.htm", "a.xml", "summary_results.json"):
        (tmp_path / file).write_text("{}")
    source, options = source_named(name), Asked()
    with suppress(AlmanacError):
        list(source.read([tmp_path], options))
    assert options.names <= {*source.options, *FOR_ALL}


@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        ("slurm", ["-o", "timezone=UTC"], "slurm does not read -o timezone; it reads --cluster, -o time_zone"),
        ("slurm", ["--round", "v5.1"], "slurm does not read --round"),
        (
            "curated",
            ["--node", "n1", "--cluster", "c1"],
            "curated does not read --cluster, --node; it reads --observed-at",
        ),
        ("nvidia-smi", ["-o", "boot_at=2026-11-01"], "nvidia-smi does not read -o boot_at"),
        ("slurm", ["-o", "time_zone=Mars/Olympus"], "-o time_zone 'Mars/Olympus' is not a time zone"),
        ("slurm", ["-o", "time_zone=../../etc/passwd"], "is not a time zone"),
        ("slurm", ["-o", "is_synthetic=yes"], "-o is_synthetic 'yes' is not true or false"),
        ("slurm", ["--cluster", ""], "--cluster is empty"),
        ("training-log", ["-o", "attempt=first"], "-o attempt 'first' is not a whole number"),
        ("training-log", ["-o", "gpus=0"], "-o gpus '0' is not a whole number above 0"),
        ("training-log", ["-o", "recompute=some"], "is not none, selective or full"),
        ("kernel-xid", ["-o", "utc_offset=2h"], "-o utc_offset '2h' is not an offset from UTC"),
        ("kernel-xid", ["-o", "boot_at=this morning"], "-o boot_at 'this morning' is not an ISO 8601 instant"),
        ("kernel-xid", ["-o", "boot_at=2999-01-01"], "-o boot_at 2999-01-01 lies in the future"),
        ("kernel-xid", ["-o", "observed_at=then"], "--observed-at 'then' is not an ISO 8601 instant"),
        ("mlperf-training", ["--round", "fifth"], "--round 'fifth' is not a round of MLPerf"),
    ],
)
def test_a_word_or_a_value_that_is_not_known(
    almanac: Console, tmp_path: Path, source: str, more: list[str], says: str
) -> None:
    (tmp_path / "x").write_text("x")
    answer = almanac("load", source, tmp_path / "x", *more, "--home", tmp_path / "home")
    assert answer.code == 2
    assert says in one_line(answer)
    assert not (tmp_path / "home").exists()


def test_values_are_read_as_they_are_meant() -> None:
    given = {"observed_at": "2026-11-01T02:00+02:00", "attempt": "01", "time_zone": "Europe/Berlin", "cluster": "c 1"}
    assert checked(source_named("training-log"), given) == {
        "observed_at": "2026-11-01T00:00:00+00:00",
        "attempt": "1",
        "time_zone": "Europe/Berlin",
        "cluster": "c 1",
    }


def test_a_source_without_options_takes_none() -> None:
    with pytest.raises(OptionError, match=r"it reads --observed-at$"):
        checked(source_named("curated"), {"day": "1"})


def test_sources_tells_what_each_reads(almanac: Console, home: Path) -> None:
    said = almanac("sources", "--home", home).out
    assert "options of load: --observed-at, --cluster, -o time_zone, -o is_synthetic" in said
