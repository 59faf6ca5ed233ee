"""Loading folders: what is sound lands, the rest is refused with its reason; bundles are the same every time."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from mlperf.logs import SYSTEM, result, run, runs, tables, write_directory
from sources.base import ParseError, Payload, Reject
from sources.mlperf.bundle import member_of_bytes, open_bundle
from sources.mlperf.training import SOURCE

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "mlperf-training"


def rejects(path: Path, **options: str) -> list[Reject]:
    return [r for p in SOURCE.read([path], options) for r in SOURCE.parse(p).rejects]


def payloads(path: Path, **options: str) -> list[Payload]:
    return list(SOURCE.read([path], options))


def test_the_fixture_scores_as_worked_by_hand() -> None:
    row = result(FIXTURES)
    assert (row["round"], row["organization"], row["accelerator_count"]) == ("v5.1", "Acme", 64)
    # Runs of 20, 21 and 25 minutes: the median is 21, times 1.05.
    assert row["minutes"] == pytest.approx(21 * 1.05)
    flops = 322_560 * (6 * 405e9 + 12 * 126 * 16384 * 8192) * 8192
    assert row["mfu_ratio"] == pytest.approx(flops / (21 * 60) / 64 / 989.4e12)


def test_a_stray_file_is_refused_and_the_rest_lands(tmp_path: Path) -> None:
    folder = write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    (folder / "notes.txt").write_text("remember the milk")
    (tmp_path / "todo.csv").write_text("a,b\n")
    found = {r.locator: r for r in rejects(tmp_path)}
    assert set(found) == {"Acme/results/acme_n1/gpt3/notes.txt", "todo.csv"}
    assert {r.rule for r in found.values()} == {"stray_file"}
    assert found["todo.csv"].raw == "a,b\n"
    assert result(tmp_path)["minutes"] == pytest.approx(10.0)


def test_readmes_and_code_are_no_strays(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    code = tmp_path / "v5.1" / "Acme" / "benchmarks" / "gpt3"
    code.mkdir(parents=True)
    (code / "train.py").write_text("pass\n")
    (tmp_path / "v5.1" / "README.md").write_text("# results\n")
    assert rejects(tmp_path) == []


def test_many_strays_do_not_drown_the_quarantine(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    for index in range(40):
        (tmp_path / f"odd{index:02}.bin").write_bytes(b"\0")
    found = rejects(tmp_path)
    assert len(found) == 16
    assert found[-1].locator == "25 more files"
    assert "odd39.bin" in found[-1].raw


def test_a_directory_without_a_system_file_lands_its_runs_only(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3", described=None)
    found = tables(tmp_path)
    assert found["market.mlperf_results"].height == 0
    assert found["market.mlperf_runs"]["slot"].to_list() == ["not_scored"] * 3
    (refused,) = rejects(tmp_path)
    assert (refused.table, refused.rule) == ("market.mlperf_results", "system_file_missing")
    assert "Acme/systems/acme_n1.json is missing" in refused.reason


def test_an_unknown_benchmark_lands_its_runs_only(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(4.0)] * 3, benchmark="llama9_900t")
    found = tables(tmp_path)
    assert found["market.mlperf_results"].height == 0
    assert found["market.mlperf_runs"]["minutes"].to_list() == [4.0] * 3
    assert found["market.mlperf_runs"]["convergence_counter"].null_count() == 3
    (refused,) = rejects(tmp_path)
    assert refused.rule == "unknown_benchmark"
    assert "llama9_900t" in refused.reason


@pytest.mark.parametrize("body", ["not json", "[]"])
def test_an_unreadable_system_file_refuses_the_result(tmp_path: Path, body: str) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    (tmp_path / "v5.1/Acme/systems/acme_n1.json").write_text(body)
    (refused,) = rejects(tmp_path)
    assert (refused.rule, refused.raw) == ("system_file_unreadable", body)


def test_a_directory_without_result_files_is_refused(tmp_path: Path) -> None:
    write_directory(tmp_path, {}, benchmark="gpt3", factor=1.1)
    assert [r.rule for r in rejects(tmp_path)] == ["no_result_files"]


@pytest.mark.parametrize(
    "below", ["", "v5.1", "v5.1/Acme", "v5.1/Acme/results/acme_n1", "v5.1/Acme/results/acme_n1/gpt3"]
)
def test_any_folder_of_a_checkout_will_do(tmp_path: Path, below: str) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    row = result(tmp_path / below)
    assert (row["round"], row["accelerator_count"], row["minutes"]) == ("v5.1", 8, pytest.approx(10.0))


@pytest.mark.parametrize("name", ["training_results_v4.1", "training_results_v4.1-main", "v4.1"])
def test_the_round_is_read_from_the_path(tmp_path: Path, name: str) -> None:
    write_directory(tmp_path, [run()] * 3, round_=name, benchmark="gpt3")
    assert result(tmp_path)["round"] == "v4.1"


@pytest.mark.parametrize("given", ["v3.0", "3.0"])
def test_the_round_can_be_given(tmp_path: Path, given: str) -> None:
    write_directory(tmp_path, [run()] * 3, round_="download", benchmark="gpt3")
    assert result(tmp_path, round=given)["round"] == "v3.0"


def test_a_round_that_is_none_is_an_error(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    with pytest.raises(ParseError, match=r"write it as v5\.1"):
        payloads(tmp_path, round="latest")


def test_no_round_anywhere_is_an_error(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, round_="download", benchmark="gpt3")
    with pytest.raises(ParseError, match="--round"):
        payloads(tmp_path)


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="result_"):
        payloads(tmp_path)
    with pytest.raises(ParseError, match="no such file"):
        payloads(tmp_path / "gone")


def test_one_stream_and_one_relative_address_a_directory(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    write_directory(tmp_path, [run()] * 5, benchmark="resnet", system="other")
    found = payloads(tmp_path)
    assert [p.stream for p in found] == ["v5.1/Acme/results/acme_n1/gpt3", "v5.1/Acme/results/other/resnet"]
    assert [p.url for p in found] == ["file:v5.1/Acme/results/acme_n1/gpt3", "file:v5.1/Acme/results/other/resnet"]


def test_the_same_files_give_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
    folder = write_directory(tmp_path / "a", [run(1.0), run(2.0), run(3.0)], benchmark="gpt3", factor=1.1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (first,) = payloads(folder)
    (second,) = payloads(tmp_path / "b")
    assert first.sha256() == second.sha256() == hashlib.sha256(first.read()).hexdigest()


def test_a_bundle_is_a_plain_tar_archive(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3", factor=1.1)
    (payload,) = payloads(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(payload.read())) as archive:
        assert archive.getnames() == [
            "v5.1/Acme/results/acme_n1/gpt3/scaling.json",
            "v5.1/Acme/systems/acme_n1.json",
            *(f"v5.1/Acme/results/acme_n1/gpt3/result_{i}.txt" for i in range(3)),
        ]
        assert {i.mtime for i in archive.getmembers()} == {0}


@pytest.mark.parametrize(
    "damage", [lambda b: b[:700], lambda b: b[: len(b) // 2], lambda _: b"<html>" * 200, lambda _: b""]
)
def test_a_damaged_bundle_is_unreadable(tmp_path: Path, damage) -> None:
    write_directory(tmp_path, [run() * 50] * 3, benchmark="gpt3")
    (whole,) = payloads(tmp_path)
    broken = Payload(whole.source, whole.url, whole.retrieved_at, whole.media_type, damage(whole.read()), whole.stream)
    with pytest.raises(ParseError, match="bundle"):
        SOURCE.parse(broken)


def test_a_bundle_of_nothing_is_unreadable() -> None:
    body = open_bundle([member_of_bytes("hello.txt", b"hi")]).read()
    payload = Payload("mlperf-training", "file:x", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "application/x-tar", body)
    with pytest.raises(ParseError, match="nothing to read"):
        SOURCE.parse(payload)


def test_a_round_without_a_publication_day_is_known_from_its_first_retrieval(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, round_="v9.0", benchmark="gpt3")
    row = result(tmp_path, observed_at="2030-01-02T03:04:05Z")
    assert row["known_at"] == dt.datetime(2030, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert "no publication day on record" in row["notes"]


def test_a_round_is_known_from_its_publication_day(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    assert result(tmp_path)["known_at"] == dt.datetime(2025, 11, 12, tzinfo=dt.UTC)
    assert {r["known_at"] for r in runs(tmp_path)} == {dt.datetime(2025, 11, 12, tzinfo=dt.UTC)}


def test_counts_and_texts_of_a_system_file_in_every_form(tmp_path: Path) -> None:
    forms = [("8", "4"), (8, 4), (8.0, 4.0), ("8.0", "4")]
    for index, (nodes, each) in enumerate(forms):
        described = {"number_of_nodes": nodes, "accelerators_per_node": each, "status": "Available in cloud"}
        write_directory(tmp_path, [run()] * 3, system=f"s{index}", benchmark="gpt3", described=described)
    found = tables(tmp_path)["market.mlperf_results"]
    assert found["accelerator_count"].to_list() == [32] * 4
    assert set(found["availability"]) == {"cloud"}


def test_a_system_file_without_counts_leaves_them_unknown(tmp_path: Path) -> None:
    described = {"number_of_nodes": "many", "accelerators_per_node": ""}
    write_directory(tmp_path, [run(samples=1_258_291_200)] * 3, benchmark="gpt3", described=described)
    row = result(tmp_path)
    assert (row["node_count"], row["accelerator_count"]) == (None, None)
    assert row["mfu_reason"] == "the number of accelerators is not stated"


def test_a_system_file_with_a_bom_is_read(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    path = tmp_path / "v5.1/Acme/systems/acme_n1.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(SYSTEM).encode())
    assert result(tmp_path)["submitter"] == "Acme"
