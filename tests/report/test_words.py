"""Numbers, sums, days and links as the page writes them."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from warehouse.report import text


def test_sums_in_both_languages():
    assert text.usd(165.05e9, "en") == "$165.1 bn"
    assert text.usd(165.05e9, "zh") == "1,650.5 亿美元"
    assert text.usd(12.3e6, "en") == "$12.3 m"
    assert text.usd(None, "en") == "\N{EN DASH}"


@pytest.mark.parametrize(
    ("value", "written"), [(10, "10"), (0.4567, "0.457"), (12.345, "12.35"), (1234.5, "1,234"), (20.8, "20.80")]
)
def test_short_numbers(value, written):
    assert text.short(value) == written


def test_changes_carry_an_arrow_and_a_sign():
    assert text.change(0.183) == "▲ +18.3 %"
    assert text.change(-0.5) == "▼ -50.0 %"
    assert text.change(None) == "\N{EN DASH}"


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//evil", "http://", "", None, "http://[x"])
def test_an_address_that_is_no_web_address_is_no_link(url):
    assert text.link("label", url) == "label"


def test_links_escape_label_and_address():
    made = text.link("<b>", 'https://x.org/"><script>')
    assert made.startswith('<a href="https://x.org/&quot;&gt;&lt;script&gt;"')
    assert "&lt;b&gt;</a>" in made


def test_several_links_are_numbered():
    made = text.links("sum", "https://a.org https://b.org")
    assert made.count("<a ") == 2
    assert ">[2]</a>" in made


def test_json_in_a_script_cannot_end_it():
    made = text.json_for_script({"a": "</script><!-- & \u2028"})
    assert not set("<>&\u2028") & set(made)
    assert json.loads(made) == {"a": "</script><!-- & \u2028"}


def test_instants_are_written_in_utc():
    moment = dt.datetime(2026, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=8)))
    assert text.moment(moment) == "2025-12-31 17:00 UTC"


def test_units_of_indicators():
    assert text.measured(11.4e9, "USD per quarter", "en") == "$11.4 bn a quarter"
    assert text.measured(4.32, "USD per GPU-hour", "zh") == "4.32 美元"
    assert text.measured(0.47, "MFU, 0 to 1", "en") == "47 %"
    assert text.measured(33.0, "percent of AI data centres", "en") == "33 %"
    assert text.measured(514.806e9, "TWD", "en") == "514.8 bn TWD"
