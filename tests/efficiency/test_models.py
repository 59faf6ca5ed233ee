"""Parameters counted for shapes that a log prints."""

from __future__ import annotations

import polars as pl
import pytest

from assets.models import derive


def test_counts_are_filled_where_dimensions_allow():
    models = pl.DataFrame(
        [
            {"model_config_id": "a", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn_hidden": 14336,
             "vocab": 128256, "is_gated_mlp": True},
            {"model_config_id": "b", "layers": 2, "hidden": None, "heads": None, "kv_heads": None, "ffn_hidden": None,
             "vocab": None, "is_gated_mlp": None},
        ]
    )  # fmt: skip
    out = derive({"ref.model_configs": models, "x": models}, lambda _: models.lazy())
    filled = out["ref.model_configs"]
    assert filled["params"][0] / 1e9 == pytest.approx(8.03, abs=0.01)
    assert filled["embedding_params"][0] == 128256 * 4096
    assert filled["params"][1] is None
    assert out["x"].columns == models.columns


def test_stated_counts_stay():
    models = pl.DataFrame([{"model_config_id": "a", "params": 5.0, "active_params": None, "layers": 1}])
    filled = derive({"ref.model_configs": models}, lambda _: models.lazy())["ref.model_configs"]
    assert (filled["params"][0], filled["active_params"][0]) == (5.0, None)
