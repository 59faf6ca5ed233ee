"""Exchange rates and what they do to offers: the day's rate, its source, at most seven days old."""

from __future__ import annotations

import datetime as dt
import io
import zipfile

import polars as pl
import pytest

from assets.prices import derive, to_usd
from sources.base import ParseError, Payload
from sources.prices import fx

from .loading import fixture, load, offers

RATES = "ref.fx_rates"


def _rates(name: str = "eurofxref-hist-90d.xml") -> pl.DataFrame:
    return load("fx-ecb", fixture("fx-ecb", name)).frames[RATES].with_columns(source=pl.lit("fx-ecb"))


def test_reference_rates_become_usd_for_one_unit() -> None:
    rows = _rates()
    by_key = {(str(r["rate_date"]), r["currency"]): r["usd_per_unit"] for r in rows.iter_rows(named=True)}
    assert by_key["2026-11-06", "EUR"] == 1.25
    assert by_key["2026-11-06", "USD"] == 1.0
    assert by_key["2026-11-06", "GBP"] == 1.5625  # 1.25 / 0.8
    assert by_key["2026-11-03", "IDR"] == 1.2 / 19200
    assert rows.height == 7
    assert rows.filter(currency="EUR")["known_at"].dt.hour().to_list() == [15, 15]


def test_history_csv_and_own_rates() -> None:
    rows = _rates("eurofxref-hist.csv")
    by_key = {(str(r["rate_date"]), r["currency"]): r["usd_per_unit"] for r in rows.iter_rows(named=True)}
    assert by_key["2026-11-06", "JPY"] == 1.25 / 200
    assert ("2026-11-06", "ISK") not in by_key  # N/A that day
    assert by_key["2026-11-05", "ISK"] == pytest.approx(1.24 / 150)
    own = load("fx-ecb", fixture("fx-ecb", "own_rates.csv"))
    assert own.frames[RATES].select("currency", "usd_per_unit", "publisher").rows() == [("CNY", 0.14, "treasury")]
    assert [r.locator for r in own.rejects] == ["line 3", "line 4"]


def test_the_history_comes_in_a_zip() -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.write(fixture("fx-ecb", "eurofxref-hist.csv"), "eurofxref-hist.csv")
    zipped = Payload("fx-ecb", "https://example.org", dt.datetime.now(dt.UTC), "application/zip", body.getvalue())
    assert (
        fx.SOURCE.parse(zipped)
        .frames[RATES]
        .drop("source_url")
        .equals(_rates("eurofxref-hist.csv").drop("source", "source_url"))
    )


def test_rates_cut_off_or_of_another_shape_are_refused() -> None:
    body = fixture("fx-ecb", "eurofxref-hist-90d.xml").read_bytes()
    for broken in (b"", body[:-60], body.replace(b"time=", b"day="), b"<html><body>no</body></html>", b"{}"):
        with pytest.raises(ParseError):
            fx.SOURCE.parse(Payload("fx-ecb", "https://example.org", dt.datetime.now(dt.UTC), "text/xml", broken))


def test_offers_in_euro_get_the_rate_of_the_day_or_of_the_days_before() -> None:
    euro = offers("gpu-prices/scaleway", fixture("gpu-prices/scaleway", "fr-par-2_2026-11-03.json"))
    done = to_usd(euro, _rates())
    assert done["price_usd_per_gpu_hour"].to_list() == pytest.approx([2.73 * 1.2, 0.75 * 1.2])
    assert done.select("fx_rate", "fx_date", "fx_source").rows() == [(1.2, dt.date(2026, 11, 3), "fx-ecb")] * 2
    assert done["quality_flags"].to_list() == [None, None]
    assert done["index_eligible"].to_list() == [True, True]
    sunday = euro.with_columns(pl.lit(dt.datetime(2026, 11, 8, 9, tzinfo=dt.UTC)).alias("observed_at"))
    assert to_usd(sunday, _rates())["fx_date"].to_list() == [dt.date(2026, 11, 6)] * 2


def test_a_rate_older_than_seven_days_or_from_later_is_not_used() -> None:
    euro = offers("gpu-prices/scaleway", fixture("gpu-prices/scaleway", "fr-par-2_2026-11-03.json"))
    for day in (dt.datetime(2026, 11, 14, tzinfo=dt.UTC), dt.datetime(2026, 11, 2, tzinfo=dt.UTC)):
        moved = euro.with_columns(pl.lit(day).alias("observed_at"))
        done = to_usd(moved, _rates())
        assert done["price_usd_per_gpu_hour"].to_list() == [None, None]
        assert done["quality_flags"].to_list() == ["fx_missing", "fx_missing"]
        assert not done["index_eligible"].any()


def test_dollars_order_and_payments_in_advance_are_kept() -> None:
    quotes = offers("gpu-prices/quotes", fixture("gpu-prices/quotes", "quotes.csv"))
    euro = quotes.with_columns(
        upfront_amount=pl.when(pl.col("currency") == "EUR").then(pl.lit("1000")).otherwise("upfront_amount")
    )
    done = to_usd(euro, _rates())
    assert done["offer_id"].to_list() == quotes["offer_id"].to_list()
    assert done.filter(currency="EUR")["upfront_usd"].to_list() == [1250.0]
    assert done.filter(currency="EUR")["price_usd_per_gpu_hour"].to_list() == pytest.approx([16000 / 730 / 8 * 1.25])
    dollars = pl.col("currency") == "USD"
    assert done.filter(dollars).equals(quotes.filter(dollars))


def test_derive_reads_rates_only_when_an_offer_waits_for_one() -> None:
    def no_rates() -> pl.DataFrame:
        raise AssertionError("rates were read for offers in USD")

    dollars = load("gpu-prices/lambda", fixture("gpu-prices/lambda", "instance_types_2026-11-01.json")).frames
    assert derive(dollars, no_rates)["market.gpu_offers"].equals(dollars["market.gpu_offers"])
    euro = load("gpu-prices/scaleway", fixture("gpu-prices/scaleway", "fr-par-2_2026-11-03.json")).frames
    assert derive(euro, _rates)["market.gpu_offers"]["fx_rate"].to_list() == [1.2, 1.2]
    assert derive({"ref.fx_rates": _rates()}, no_rates).keys() == {"ref.fx_rates"}
