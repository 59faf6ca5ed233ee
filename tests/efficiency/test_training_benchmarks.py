"""Published throughput tables load, and the calculator's formulas reproduce them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from assets.flops import Shape, count_flops
from assets.mfu import utilisation
from assets.peaks import find_peak
from sources.base import ParseError, Payload
from sources.model_config import SOURCE as MODELS
from sources.training_benchmarks import SOURCE
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema

TABLE = "market.training_benchmarks"
# Layers and width of the MPT family; each is checked against the printed parameter count below.
MPT = {"70b": (80, 8192), "30b": (48, 7168), "13b": (40, 5120), "7b": (32, 4096), "3b": (32, 2560), "1b": (24, 2048),
       "760m": (24, 1536), "350m": (24, 1024), "125m": (12, 768)}  # fmt: skip
PEAKS = {
    ("h100_80gb", "bf16"): 989.4,
    ("h100_80gb", "fp8"): 1978.9,
    ("a100_80gb", "bf16"): 312,
    ("a100_40gb", "bf16"): 312,
}


@pytest.fixture
def pages(shared: Path):
    return {
        p.url.removeprefix("file:"): SOURCE.parse(p)
        for p in SOURCE.read([shared / "data" / "signals" / "mfu_sources"], {"observed_at": "2026-11-30T00:00:00Z"})
    }


def test_every_row_loads(pages):
    counts = {name: (out.frames[TABLE].height, len(out.rejects)) for name, out in pages.items()}
    # 226 lines in 5 tables less 2 x 5 of header; 6 x 4 and 16 x 1 figures
    assert counts == {
        "llm-foundry_benchmarking_README.md": (216, 0), "maxtext_v5e.md": (24, 0), "maxtext_v5p.md": (16, 0),
    }  # fmt: skip
    for out in pages.values():
        frame = out.frames[TABLE]
        schema = lake_schema(tables()[TABLE])
        assert set(frame.columns) <= set(schema)
        frame.cast({c: schema[c] for c in frame.columns}, strict=True)
        assert frame["run"].n_unique() == frame.height


def test_llm_foundry_agrees_from_raw_inputs(pages):
    rows = pages["llm-foundry_benchmarking_README.md"].frames[TABLE].to_dicts()
    worst_mfu = worst_hfu = 0.0
    for row in rows:
        layers, hidden = MPT[row["model"].removeprefix("MPT ")]
        counted = 12 * layers * hidden**2 + 50368 * hidden + row["seq_len"] * hidden
        assert counted == pytest.approx(row["params"], rel=2e-3), row["run"]
        shape = Shape(params=row["params"], layers=layers, heads=1, head_dim=hidden, seq_len=row["seq_len"])
        count = count_flops(shape, "palm", row["recompute"])
        out = utilisation(
            tokens=row["tokens_per_s"],
            seconds=1,
            accelerators=row["accelerators"],
            model_flops_per_token=count.model_flops_per_token,
            hardware_flops_per_token=count.hardware_flops_per_token,
            peak_tflops=PEAKS[row["accelerator"], row["precision"]],
        )
        worst_mfu = max(worst_mfu, abs(out.mfu_ratio - row["mfu_ratio"]))
        worst_hfu = max(worst_hfu, abs(out.hfu_ratio - row["hfu_ratio"]))
    assert worst_mfu < 0.001
    assert worst_hfu < 0.001


@pytest.mark.parametrize("page", ["maxtext_v5e.md", "maxtext_v5p.md"])
def test_maxtext_agrees_with_the_curated_peak(pages, page):
    for row in pages[page].frames[TABLE].to_dicts():
        peak = find_peak(row["accelerator_id"], "bf16").tflops
        assert row["tflops_per_gpu"] / peak == pytest.approx(row["mfu_ratio"], abs=0.005), row["run"]


def test_slices_are_counted_in_chips(pages):
    v5p = {r["run"]: r["accelerators"] for r in pages["maxtext_v5p.md"].frames[TABLE].to_dicts()}
    assert v5p["32B / 2x v5p-128"] == 128  # 128 TensorCores are 64 chips, twice
    v5e = {r["run"]: r["accelerators"] for r in pages["maxtext_v5e.md"].frames[TABLE].to_dicts()}
    assert v5e["16B / 32x v5e-256"] == 8192


def test_broken_rows_are_refused_and_other_pages_raise():
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    head = "| Hardware | 16B TFLOP/sec/chip | 16B MFU |\n| --- | --- | --- |\n"
    body = head + "| 1x v5e-256 | 120 | 61.10% |\n| 2x v5e-256 | soon | 60% |\n"
    out = SOURCE.parse(Payload(SOURCE.name, "file:a.md", now, "text/markdown", body.encode()))
    assert (out.frames[TABLE].height, len(out.rejects)) == (1, 1)
    with pytest.raises(ParseError, match="no throughput table"):
        SOURCE.parse(Payload(SOURCE.name, "file:a.md", now, "text/markdown", b"# moved"))


def test_published_shapes_come_with_their_source():
    (payload,) = MODELS.fetch(None)
    out = MODELS.parse(payload)
    frame = out.frames["ref.model_configs"]
    assert out.rejects == []
    assert frame["source_url"].null_count() == 0
    assert frame["known_at"].max() == payload.retrieved_at
    schema = lake_schema(tables()["ref.model_configs"])
    frame.cast({c: schema[c] for c in frame.columns}, strict=True)
    palm = frame.row(frame["model_config_id"].index_of("palm-540b"), named=True)
    shape = Shape(params=palm["params"], layers=palm["layers"], heads=palm["heads"], head_dim=palm["head_dim"],
                  seq_len=palm["seq_len"])  # fmt: skip
    assert count_flops(shape).model_flops_per_token / 1e9 == pytest.approx(3277.73, abs=0.01)


def test_models_of_a_user_are_refused_with_reasons():
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    text = b'[[model]]\nid = "a"\nparams = 1e9\n[[model]]\nparams = 1\n[[model]]\nid = "b"\nlayers = true\n'
    out = MODELS.parse(Payload(MODELS.name, "file:m.toml", now, "application/toml", text))
    assert out.frames["ref.model_configs"]["model_config_id"].to_list() == ["a"]
    assert [r.reason for r in out.rejects] == ["the model has no id", "layers is not a number"]
    with pytest.raises(ParseError, match="not a TOML file"):
        MODELS.parse(Payload(MODELS.name, "file:m.toml", now, "application/toml", b"<html>"))
