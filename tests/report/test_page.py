"""The page as a whole: nothing from outside, nothing unescaped, everything said in both languages."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import vl_convert

from report.pages import digest, page
from report.rows import drop, events, indicators, policy, results, warehouse
from warehouse.report import write_report
from warehouse.report.section import sections

HOSTILE = "</script><img src=x onerror=alert(1)><!--"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return warehouse(tmp_path_factory.mktemp("full"))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_section_is_there_and_none_failed(full, lang):
    found = page(full, lang)
    ids = {a.get("id") for t, a in found.tags if t == "section"}
    assert ids == {s.key for s in sections()}
    assert "query failed" not in found.text
    assert "查询失败" not in found.text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_is_requested_from_outside(full, lang):
    found = page(full, lang)
    for tag, attributes in found.tags:
        for name in ("src", "srcset", "poster", "data", "action", "background"):
            assert name not in attributes, (tag, attributes)
        if tag != "a":
            assert not (attributes.get("href") or "").startswith(("http:", "https:", "//")), (tag, attributes)
    styles = " ".join(found.styles) + " ".join(a.get("style") or "" for _, a in found.tags)
    assert not re.search(r"url\(|@import", styles)
    assert not [s for s in found.charts if "url" in str(s.get("data", {}))]


def test_the_policy_allows_only_the_scripts_of_the_page(full):
    found = page(full)
    assert found.policy.startswith("default-src 'none'")
    run = [text for attributes, text in found.scripts if attributes.get("type") != "application/json"]
    assert run
    assert all(digest(text) in found.policy for text in run)
    allowed = re.search(r"script-src ([^;]+)", found.policy)
    assert "unsafe" not in allowed[1]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_all_sixteen_indicators_are_named(full, lang):
    text = page(full, lang).text
    names = [row[f"name_{lang}"] for row in indicators()]
    assert len(names) == 16
    assert [name for name in names if name not in text] == []


def test_scraped_text_cannot_become_markup(tmp_path):
    home = warehouse(
        tmp_path,
        market__policy_documents=[policy()[0] | {"title": HOSTILE, "source_url": "javascript:alert(1)"}],
        market__mlperf_results=[row | {"submitter": HOSTILE, "system": HOSTILE} for row in results()],
        telemetry__gpu_events=events(message=HOSTILE),
    )
    found = page(home)
    assert "img" not in {tag for tag, _ in found.tags}
    assert len(found.scripts) == 3
    assert HOSTILE in found.text
    assert HOSTILE in str(found.charts)
    assert not [a for _, a in found.tags if any(name.startswith("on") for name in a)]
    assert {url.split(":")[0] for url in found.links() if ":" in url} <= {"http", "https"}


def test_links_never_run_code_and_lead_to_the_source(full):
    urls = page(full).links()
    assert "https://example.org/paper" in urls
    assert all(url.startswith(("https://", "http://", "#", "index")) for url in urls)


def test_the_banner_stands_where_data_is_synthetic_and_nowhere_else(tmp_path, full):
    assert not page(full).has_class("banner")
    made = page(warehouse(tmp_path, synthetic=True))
    assert made.has_class("banner")
    assert "Synthetic data" in made.text
    assert "合成数据" in page(warehouse(tmp_path / "zh", synthetic=True), "zh").text


def test_a_missing_table_costs_its_section_and_says_why(tmp_path):
    home = warehouse(tmp_path, market__interruptions=[])
    drop(home, "mart.capex_quarterly", "mart.fleet_daily", "market.mlperf_runs")
    found = page(home)
    assert "Not shown: this warehouse has no table mart.capex_quarterly." in found.text
    assert "Not shown: market.interruptions is empty" in found.text
    assert "A rule" in found.text
    assert "本数据库没有表 mart.fleet_daily。" in page(home, "zh").text


def test_a_query_that_fails_costs_its_section_only(tmp_path):
    import duckdb

    home = warehouse(tmp_path)
    with duckdb.connect(str(home.database)) as con:
        con.execute("alter table market.policy_documents drop column citation")
    found = page(home)
    assert "Not shown: the query failed" in found.text
    assert len([1 for t, a in found.tags if a.get("class") == "chart"]) == len(found.charts)


def test_an_empty_warehouse_gives_a_page_of_reasons(tmp_path):
    names = [
        "ref__indicators", "market__financials", "market__guidance", "market__gpu_offers", "market__mlperf_results",
        "market__mlperf_runs", "market__model_disclosures", "market__interruptions", "market__policy_documents",
        "telemetry__gpu_hours", "telemetry__gpu_events", "telemetry__link_counters", "ops__sources",
    ]  # fmt: skip
    found = page(warehouse(tmp_path, **{name: [] for name in names}))
    assert found.charts == []
    assert found.text.count("Not shown") >= 9


def test_every_figure_says_where_it_comes_from(full):
    found = page(full)
    figures = found.source.split("<figure")[1:]
    assert figures
    assert [f[:80] for f in figures if "As of " not in f.split("</figure>")[0]] == []
    assert [f[:80] for f in figures if "Certainty: " not in f.split("</figure>")[0]] == []
    assert all(a.get("aria-label") for _, a in found.tags if a.get("class") == "chart")


def test_headings_do_not_skip_a_level(full):
    levels = [int(t[1]) for t, _ in page(full).tags if re.fullmatch(r"h[1-6]", t)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_results_open_to_their_runs(full):
    assert "result_0.txt: 99.00 min, success, kept" in page(full).text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_chart_compiles(full, lang):
    for spec in page(full, lang).charts:
        svg = vl_convert.vegalite_to_svg(spec | {"width": 400}, vl_version="6.4")
        assert svg.startswith("<svg")


@pytest.mark.slow
def test_the_written_file_holds_the_library_once_and_stays_small(full):
    path = write_report(full, "en")
    assert path == full.report / "index.html"
    assert path.stat().st_size < 3_000_000
    text = path.read_text(encoding="utf-8")
    assert text.count("window.vegaEmbed=") == 1
    assert len(re.findall(r"<script\b", text)) == text.count("</script>") == 3
    assert write_report(full, "zh") == full.report / "index.zh.html"
    assert not list(full.report.glob("*.part"))
