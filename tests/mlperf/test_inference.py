"""Inference summaries and the logs behind them. Figures of the fixture's first three records are the published ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assets.mlperf import derive
from mlperf.logs import curated
from sources.base import FetchError, ParseError, Response
from sources.mlperf.inference import SOURCE
from sources.mlperf.inference_rows import agree

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "mlperf-inference"
AMD = "closed/AMD/results/8xMI300X_2xEPYC_9575F/llama2-70b-99"


def rows(path: Path, **options: str) -> pl.DataFrame:
    frames = [SOURCE.parse(p).frames for p in SOURCE.read([path], options)]
    reference = {"aliases": curated("ref.accelerator_aliases"), "accelerators": curated("ref.accelerators")}
    return pl.concat(derive(f, **reference)["market.mlperf_inference"] for f in frames)


def at(frame: pl.DataFrame, location: str) -> dict[str, Any]:
    return frame.filter(pl.col("location") == location).row(0, named=True)


@pytest.fixture(scope="module")
def published() -> pl.DataFrame:
    return rows(FIXTURES)


@pytest.mark.parametrize(
    ("scenario", "figure", "logged", "line"),
    [
        ("Interactive", 8840.42, 8840.42, "Completed tokens per second"),
        ("Offline", 27803.9, 27803.9, "Tokens per second"),
        ("Server", 24593.8, 24593.77, "Completed tokens per second"),
    ],
)
def test_published_figures_agree_with_their_logs(
    published: pl.DataFrame, scenario: str, figure: float, logged: float, line: str
) -> None:
    row = at(published, f"{AMD}/{scenario}")
    assert (row["performance"], row["log_performance"], row["log_performance_key"]) == (figure, logged, line)
    assert (row["log_agrees"], row["log_reason"], row["log_validity"]) == (True, None, "VALID")
    assert row["performance_per_accelerator"] == pytest.approx(figure / 8)


def test_real_logs_carry_the_same_figures(shared: Path) -> None:
    found = rows(shared / "data" / "mlperf_inference", round="v5.1")
    assert found.height == 20
    for scenario, logged in (("Interactive", 8840.42), ("Offline", 27803.9), ("Server", 24593.77)):
        row = at(found, f"{AMD}/{scenario}/performance/run_1/mlperf_log_summary.txt")
        assert (row["log_performance"], row["performance"]) == (logged, None)
        assert "published figure is not known" in row["log_reason"]
    assert found["accelerator_count"].to_list() == [8] * 20
    assert set(found["scenario"]) == {"Offline", "Server", "Interactive"}  # one system writes them small
    assert set(found["accelerator_id"]) == {"amd-mi300x-192gb", "nvidia-b200-sxm6-180gb"}


def test_a_log_that_disagrees_is_told_apart(published: pl.DataFrame) -> None:
    row = at(published, "closed/Acme/results/two/llama2-70b-99/Offline")
    assert (row["performance"], row["log_performance"], row["log_agrees"]) == (64000.0, 63000.4, False)
    assert row["log_reason"] == "published 64000, the log says 63000.4"


def test_counts_and_names_in_every_form(published: pl.DataFrame) -> None:
    two = at(published, "closed/Acme/results/two/llama2-70b-99/Offline")
    assert (two["node_count"], two["accelerators_per_node"], two["accelerator_count"]) == (2, 8, 16)
    assert (two["accelerator_id"], two["availability"]) == ("nvidia-h100-sxm5-80gb", "preview")
    edge = at(published, "open/Acme/results/board/resnet/singlestream")
    assert (edge["accelerator"], edge["accelerators_per_node"], edge["accelerator_count"]) == (None, None, None)
    assert (edge["system"], edge["division"], edge["suite"]) == ("board", "open", "edge")


def test_a_log_line_without_a_number_is_no_figure(tmp_path: Path) -> None:
    (tmp_path / "summary_results.json").write_bytes((FIXTURES / "v5.1" / "summary_results.json").read_bytes())
    log = tmp_path / AMD / "Offline" / "performance" / "run_1" / "mlperf_log_summary.txt"
    log.parent.mkdir(parents=True)
    log.write_text("Scenario : Offline\nTokens per second: soon\nResult is : INVALID\n")
    found = at(rows(tmp_path), f"{AMD}/Offline")
    assert (found["log_performance"], found["log_agrees"], found["log_validity"]) == (None, None, "INVALID")
    assert "holds no number" in found["log_reason"]


def test_latencies_are_not_divided_and_power_is_kept(published: pl.DataFrame) -> None:
    edge = at(published, "open/Acme/results/board/resnet/singlestream")
    assert (edge["is_latency"], edge["performance"], edge["performance_per_accelerator"]) == (True, 1.25, None)
    assert (edge["power_value"], edge["power_unit"]) == (31.5, "millijoules")
    assert edge["log_reason"] == "no log of this result is held"


@pytest.mark.parametrize(
    ("published_figure", "logged", "same"),
    [
        ("24593.8", "24593.77", True),
        ("24593.8", "24593.74", False),
        ("101527", "101527.4", True),
        ("8840.42", "8840.42", True),
        ("8840.42", "8840.43", False),
    ],
)
def test_agreement_is_to_the_coarser_printed_digit(published_figure: str, logged: str, same: bool) -> None:
    assert agree(Decimal(published_figure), Decimal(logged)) is same


def test_a_record_that_cannot_be_read_is_refused_alone(tmp_path: Path) -> None:
    records = json.loads((FIXTURES / "v5.1" / "summary_results.json").read_text())
    del records[0]["Model"]
    records[1]["Performance_Result"] = "n/a"
    (tmp_path / "summary_results.json").write_text(json.dumps(records))
    (payload,) = SOURCE.read([tmp_path], {})
    parsed = SOURCE.parse(payload)
    assert [r.locator for r in parsed.rejects] == ["record 0", "record 1"]
    assert parsed.frames["raw.mlperf_inference"].height == 3


def test_the_round_is_read_from_the_records(tmp_path: Path) -> None:
    (tmp_path / "summary_results.json").write_bytes((FIXTURES / "v5.1" / "summary_results.json").read_bytes())
    assert set(rows(tmp_path / "summary_results.json")["round"]) == {"v5.1"}


@pytest.mark.parametrize("body", ["<html>", "{}", "[]"])
def test_a_summary_that_is_none_is_unreadable(tmp_path: Path, body: str) -> None:
    (tmp_path / "summary_results.json").write_text(body)
    (payload,) = SOURCE.read([tmp_path], {"round": "v5.1"})
    with pytest.raises(ParseError, match=r"summary_results\.json"):
        SOURCE.parse(payload)


def test_a_folder_with_neither_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="give a folder of a round"):
        list(SOURCE.read([tmp_path], {}))


def test_logs_without_a_system_file_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "v5.1" / AMD / "Offline" / "performance" / "run_1" / "mlperf_log_summary.txt"
    log.parent.mkdir(parents=True)
    log.write_text("Scenario : Offline\nTokens per second: 5\n")
    (payload,) = SOURCE.read([tmp_path], {})
    (refused,) = SOURCE.parse(payload).rejects
    assert refused.rule == "log_without_system"


class RefusedError(FetchError):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class FakeWeb:
    """Answers from a dictionary of addresses; anything else is 404. `held` addresses answer 304."""

    def __init__(self, answers: Mapping[str, bytes], held: set[str] | None = None) -> None:
        self.answers, self.held, self.asked = answers, held or set(), []

    def get(self, url: str, *, params=None, headers=None, conditional: bool = True, max_bytes=None) -> Response | None:
        from datetime import UTC, datetime

        self.asked.append(url)
        if conditional and url in self.held:
            return None
        if url not in self.answers:
            raise RefusedError(404)
        return Response(url, 200, self.answers[url], "application/json", datetime(2026, 1, 1, tzinfo=UTC), etag="e")


def test_fetching_a_round_takes_the_summary_and_the_logs_it_names() -> None:
    base = "https://raw.githubusercontent.com/mlcommons/inference_results_v5.1/HEAD"
    listed = [
        {"name": f"inference_results_{v}", "full_name": f"mlcommons/inference_results_{v}"} for v in ("v2.1", "v5.1")
    ]
    answers = {"https://api.github.com/orgs/mlcommons/repos": json.dumps(listed).encode()}
    for file in (FIXTURES / "v5.1").rglob("*.*"):
        if file.is_file():
            answers[f"{base}/{file.relative_to(FIXTURES / 'v5.1').as_posix()}"] = file.read_bytes()
    web = FakeWeb(answers)
    (payload,) = SOURCE.fetch(web)  # v2.1 publishes no summary
    assert payload.stream == "v5.1/summary"
    parsed = SOURCE.parse(payload).frames["raw.mlperf_inference"]
    assert parsed["log_agrees"].to_list() == [True, True, True, None, False]
    again = FakeWeb(answers, held={payload.url})
    assert list(SOURCE.fetch(again)) == []
    assert len(again.asked) == 3
