"""The log reader against a plain one that follows the official code line by line, and its memory."""

from __future__ import annotations

import io
import json
import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlperf.logs import START, line, read, run
from sources.mlperf import mllog
from sources.mlperf.mllog import read_log


def plain(body: bytes) -> tuple[int, int, float | None, float | None]:
    """(log lines, corrupt ones, first start, first stop): latin-1, universal newlines, JSON after the last token."""
    good = bad = 0
    first: dict[str, float] = {}
    for text in io.TextIOWrapper(io.BytesIO(body), encoding="latin-1"):
        if ":::MLLOG " not in text:
            continue
        try:
            entry = json.loads(re.sub(".*:::MLLOG ", "", text).strip())
            float(entry["time_ms"]), entry["key"], entry["value"], entry["metadata"]
        except (ValueError, KeyError, TypeError):
            bad += 1
            continue
        good += 1
        first.setdefault(str(entry["key"]), float(entry["time_ms"]))
    return good + bad, bad, first.get("run_start"), first.get("run_stop")


PIECES = st.sampled_from(
    [
        "NCCL INFO Channel 16/0\n",
        "tokens 5%\r",
        "\n",
        "0: ",
        "\x1b[0m",
        "caf\xe9 ",
        line("run_start"),
        line("run_stop", None, START + 60_000, status="success"),
        line("tracked_stats", {"throughput": 4.2e7, "n": None}),
        line("train_loss", 1.25, samples_count=90, lr=-3.1e-4),
        line("seed", 'a \\ and " and \u00e9'),
        line("cache_clear", value=True).rstrip("\n") + "\r\n",
        line("seed", 7).rstrip("\n") + " and more on the line\n",
        line("seed", 7).replace("7", "07"),
        line("seed", 7).replace("7", "1.2.3"),
        line("seed", 7).replace('"value": 7', '"value": nullLambda'),
        line("seed", "tab\there").replace("\\t", "\t"),
        line("seed", [1, [2]]),
        line("seed", float("nan")),
        line("seed", ":::MLLOG in a string"),
        ":::MLLOG not json\n",
        ":::MLLOG [1]\n",
        ':::MLLOG {"key": "run_start"}\n',
        ":::MLLOG " + line("global_batch_size", 8),
        line("seed", 1).rstrip("\n"),
        line("seed", 1, ms=0).replace("lineno", "no"),
        ":::MLLOG",
    ]
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES, max_size=12), chunk=st.sampled_from([1, 7, 64, 1 << 20]))
def test_the_fast_reader_sees_what_a_plain_one_sees(pieces: list[str], chunk: int) -> None:
    body = "".join(pieces).encode("latin-1")
    usual, mllog.CHUNK = mllog.CHUNK, chunk
    try:
        log = read_log(io.BytesIO(body))
    finally:
        mllog.CHUNK = usual
    assert (log.line_count, log.corrupt_count, log.started_ms, log.stopped_ms) == plain(body)
    assert log.size_bytes == len(body)


def test_the_last_evaluation_counts_whatever_its_form() -> None:
    odd = line("eval_accuracy", 0.5, START + 2, epoch_num=2).replace('", "', '",  "')
    log = read(line("eval_accuracy", 0.4, START + 1, epoch_num=1) + odd)
    assert (log.eval_value, log.eval_metadata["epoch_num"]) == (0.5, 2)
    log = read(odd + line("eval_accuracy", 0.6, START + 3, epoch_num=3))
    assert (log.eval_value, log.eval_metadata["epoch_num"]) == (0.6, 3)


def test_the_first_start_stop_and_batch_size_count() -> None:
    log = read(run(5.0) + run(9.0) + line("global_batch_size", 99))
    assert log.stopped_ms - log.started_ms == 5 * 60_000
    assert log.global_batch_size == 8


def test_precision_and_sequence_length_of_newer_rounds() -> None:
    log = read(line("lowest_numerical_precision_linear", "mxfp4") + line("max_sequence_length", 8192))
    assert (log.linear_precision, log.sequence_length) == ("mxfp4", 8192)


def test_a_boolean_is_no_number() -> None:
    assert read(line("global_batch_size", value=True)).global_batch_size is None


class Endless(io.RawIOBase):
    """A log of a given size that is never held whole."""

    def __init__(self, size: int, text: bytes) -> None:
        self.left, self.text = size, text

    def read(self, count: int = -1) -> bytes:
        take = min(count, self.left)
        self.left -= take
        return (self.text * (take // len(self.text) + 2))[:take]


@pytest.mark.parametrize(
    "text", [line("train_loss", 1.25, samples_count=90).encode(), b"no line end at all "], ids=["lines", "one line"]
)
def test_memory_does_not_grow_with_the_log(text: bytes) -> None:
    peaks = []
    for size in (4 << 20, 32 << 20):
        tracemalloc.start()
        log = read_log(Endless(size, text))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert log.size_bytes == size
    assert peaks[1] < 40 << 20
    assert peaks[1] < peaks[0] + (16 << 20)


def test_an_endless_log_line_is_corrupt_not_a_memory_hog() -> None:
    log = read_log(io.BytesIO(b':::MLLOG {"key": "' + b"x" * (20 << 20)))
    assert (log.line_count, log.corrupt_count) == (1, 1)
