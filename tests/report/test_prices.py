"""The price section: level, index and panel of our own index, own cost, price per PFLOP-hour, indices of others."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
from marts.tables import at, on

from report.pages import page
from report.rows import warehouse
from warehouse.home import Home

H100 = "nvidia-h100-sxm5-80gb"


def days(segment: str, prices: list[float], providers: int) -> list[dict]:
    """Fixings of an H100 series from the first of May on; a level needs five providers."""
    row = {
        "accelerator_id": H100,
        "segment": segment,
        "price_kind": "on_demand",
        "series": f"{H100}/{segment}/on_demand",
    }
    row |= {
        "method_version": "1",
        "source": "price-index",
        "source_name": "our index",
        "provider_count": providers,
        "term_months": 0,
    }
    enough = providers >= 5
    return [
        row
        | {
            "date": on("2026-05-01") + dt.timedelta(days=number),
            "median_usd_per_gpu_hour": price,
            "level_usd_per_gpu_hour": price if enough else None,
            "index_value": 100 * price / prices[0] if enough else None,
            "contributors": "a b",
            "known_at": at("2026-05-02T00:00") + dt.timedelta(days=number),
        }
        for number, price in enumerate(prices)
    ]


def priced(tmp_path: Path, **more: list[dict]) -> Home:
    rows = days("headline", [2.0, 2.2], 6) + days("hyperscaler", [7.0, 7.0], 3)
    return warehouse(tmp_path, market__gpu_price_index=rows, **more)


def points(spec: dict) -> list[dict]:
    """All inline values of a chart, whatever layer they stand in."""
    own = list(spec.get("data", {}).get("values", []))
    return own + [value for layer in spec.get("layer", []) for value in points(layer)]


def chart_with(home: Home, *keys: str) -> dict:
    """The one chart whose points have these keys."""
    (found,) = [spec for spec in page(home).charts if any(set(keys) <= set(point) for point in points(spec))]
    return found


def test_level_index_and_panel_share_one_plot(tmp_path: Path):
    home = priced(tmp_path)
    spec = chart_with(home, "k", "w")
    shown = {(p["s"], p["d"][:10], p["v"], p["i"] and round(p["i"], 6), p["n"], p["k"]) for p in points(spec)}
    assert len(spec["layer"]) == 3
    assert shown == {
        ("headline", "2026-05-01", 2.0, 100.0, 6, "level"),
        ("headline", "2026-05-02", 2.2, 110.0, 6, "level"),
        ("hyperscaler", "2026-05-01", 7.0, None, 3, "median of a small panel"),
        ("hyperscaler", "2026-05-02", 7.0, None, 3, "median of a small panel"),
    }
    text = page(home).text
    assert "H100 SXM: $2.20 an hour on 2026-05-02, index 110.0 (headline, 6 providers)" in text
    assert "No own cost is drawn" in text


def test_no_line_is_drawn_over_a_gap(tmp_path: Path):
    rows = days("headline", [2.0, 2.2], 6)
    rows.append(rows[0] | {"date": on("2025-12-01")})
    home = warehouse(tmp_path, market__gpu_price_index=rows)
    runs = {p["d"][:10]: p["r"] for p in points(chart_with(home, "k", "w"))}
    assert runs == {"2025-12-01": 0, "2026-05-01": 1, "2026-05-02": 1}


def test_own_cost_is_a_line_and_says_whose(tmp_path: Path):
    home = priced(tmp_path)
    with duckdb.connect(str(home.database)) as con:
        cost = {"cluster": "alpha", "accelerator_id": H100, "price_kind": "on_demand", "is_synthetic": True}
        con.execute("delete from mart.cost_vs_market")
        con.execute(
            "insert into mart.cost_vs_market by name select $c as cluster, $a as accelerator_id, $k as price_kind, "
            "true as is_synthetic, 1.94 as own_usd_per_gpu_hour",
            {"c": cost["cluster"], "a": cost["accelerator_id"], "k": cost["price_kind"]},
        )
    spec = chart_with(home, "k", "w")
    assert {(p["c"], p["v"]) for p in points(spec) if "c" in p} == {("own cost, alpha (synthetic)", 1.94)}
    assert "Synthetic data: own cost of a generated demonstration cluster." in page(home).text


def test_small_panels_alone_give_no_index_and_say_so(tmp_path: Path):
    home = warehouse(tmp_path, market__gpu_price_index=days("hyperscaler", [7.0, 6.9], 3))
    assert "No index yet: the largest panel has 3 of the 5 providers that a level needs" in page(home).text


def test_a_published_index_without_a_level_stays_in_the_table(tmp_path: Path):
    row = {"index_id": "x/h100", "gpu_name": "H100 SXM", "period": "day", "price_kind": "index", "measures": "asks"}
    row |= {"period_start": on("2026-03-02"), "source": "curated", "source_name": "a publisher"}
    home = priced(
        tmp_path,
        market__external_indices=[
            row | {"level_usd_per_gpu_hour": 1.7},
            row | {"index_id": "x/left-out", "level_usd_per_gpu_hour": None},
        ],
    )
    found = page(home).text
    assert "in 2026 runs from $1.70 to $1.70" in found
    assert "x/left-out" in found


def test_price_of_work_follows_the_generations(tmp_path: Path):
    home = priced(
        tmp_path,
        ref__accelerators=[
            {"accelerator_id": H100, "vendor": "NVIDIA", "model": "H100 SXM5", "architecture": "Hopper",
             "release_date": on("2022-09-20"), "bf16_dense_tflops": 989.4, "memory_gb": 80.0, "source": "curated"},
        ],
    )  # fmt: skip
    spec = chart_with(home, "a", "v", "s", "g", "p", "b")
    (shown,) = [p for p in points(spec) if p.get("s") == "hyperscaler"]
    assert (shown["a"], shown["g"]) == ("NVIDIA H100 SXM5", "Hopper")
    assert round(shown["v"], 3) == round(7.0 / 0.9894, 3)


def offered(provider: str, day: str, price: float) -> dict:
    row = {"accelerator_id": H100, "segment": "neocloud", "price_kind": "on_demand", "sku": "h100", "gpu_count": 8}
    row |= {"term_months": 0, "operating_system": "linux", "source": f"gpu-prices/{provider}", "provider": provider}
    moment = at(f"{day}T00:00")
    return row | {"observed_at": moment, "known_at": moment, "price_usd_per_gpu_hour": price}


def test_quotes_are_of_the_year_before_the_page_whatever_the_newest_offer_says(tmp_path: Path) -> None:
    # The page is of 1 June 2026. An offer dated 2028 would have pushed every real quote out of the window.
    rows = [offered("a", "2026-05-01", 2.0), offered("b", "2025-05-31", 9.0), offered("c", "2028-01-01", 3.0)]
    shown = {p["p"] for p in points(chart_with(warehouse(tmp_path, market__gpu_offers=rows), "a", "p", "v", "d", "n"))}
    assert shown == {"a"}


def test_old_quotes_alone_are_not_shown_as_quotes(tmp_path: Path) -> None:
    old = [offered("b", "2025-05-31", 9.0)]
    assert "no on-demand price of the last 365 days" in page(warehouse(tmp_path, market__gpu_offers=old)).text
