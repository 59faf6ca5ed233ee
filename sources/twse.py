"""Monthly revenue of Taiwanese makers of chips, AI servers and optics, from the two exchanges' open data.

Belongs here: the feed with its ROC calendar and thousand-dollar units. Does not belong here: TSMC's 6-K
(`sec/tsmc_revenue.py`).
"""

from __future__ import annotations

import calendar
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.sec.documents import document_name, read_text
from sources.sec.figures import FINANCIALS
from sources.sec.monthly import MONTHLY, monthly_frame

FEEDS = {
    "TWSE": "https://openapi.twse.com.tw/v1/opendata/t187ap05_L",
    "TPEX": "https://www.tpex.org.tw/openapi/v1/mopsfin_t187ap05_O",
}
# Chips, AI servers, cooling, power, switches, optics. The code is the exchange's.
WATCHED = {
    "2330": "TSM",
    "2317": "2317.TW",
    "2382": "2382.TW",
    "3231": "3231.TW",
    "6669": "6669.TW",
    "2356": "2356.TW",
    "2376": "2376.TW",
    "2357": "2357.TW",
    "2345": "2345.TW",
    "2308": "2308.TW",
    "3017": "3017.TW",
    "2301": "2301.TW",
    "3324": "3324.TWO",
    "4979": "4979.TWO",
    "3163": "3163.TWO",
}
MONTH, CODE, NAME, PUBLISHED = "資料年月", "公司代號", "公司名稱", "出表日期"
REVENUE, BEFORE, CHANGE = "營業收入-當月營收", "營業收入-上月營收", "營業收入-上月比較增減(%)"
ROC_YEAR_ZERO = 1911
THOUSAND = 1000.0


class TaiwanRevenue:
    """The whole-market files of the latest month, filled from the 1st to the 10th."""

    name = "twse-revenue"
    publisher = "Taiwan Stock Exchange, Taipei Exchange"
    homepage = "https://openapi.twse.com.tw/"
    licence = "Open Government Data License, Taiwan"
    terms = "free, no key; the file holds the latest month only"
    cadence: Cadence = "daily"
    tables: tuple[str, ...] = (FINANCIALS,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """One payload an exchange."""
        for exchange, url in FEEDS.items():
            r = web.get(url, max_bytes=32 << 20)
            if r is not None:
                yield Payload(
                    self.name, r.url, r.retrieved_at, r.media_type, r.body, exchange, r.status, r.etag, r.last_modified
                )

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local copies of the JSON."""
        for file, name in local_files(paths, (".json",)):
            yield payload_of(self.name, file, name, options, media_type="application/json", meta={}, stream=name)

    def parse(self, payload: Payload) -> Parsed:
        """Rows of `market.financials` for the companies of `WATCHED`. Raises `ParseError`."""
        name = document_name(payload)
        text = read_text(payload)
        try:
            rows = json.loads(text)
        except json.JSONDecodeError as error:
            raise ParseError(f"{name}: not JSON, or cut short at character {error.pos}; fetch it again") from error
        if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
            raise ParseError(f"{name}: a JSON list of companies was due")
        if not rows:
            raise ParseError(f"{name}: the list of companies is empty; fetch it again")
        wanted = [r for r in rows if str(r.get(CODE, "")).strip() in WATCHED]
        found: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for row in wanted:
            try:
                found.append(_row(row, payload))
            except (ValueError, KeyError) as error:
                raw = json.dumps(row, ensure_ascii=False)
                rejects.append(Reject(FINANCIALS, "monthly_revenue", f"{error}", raw, str(row.get(CODE))))
        return Parsed({FINANCIALS: monthly_frame(found)}, tuple(rejects))


def _row(row: Mapping[str, Any], payload: Payload) -> dict[str, Any]:
    year, month = roc_month(str(row[MONTH]))
    revenue = _whole(row, REVENUE)
    before, change = row.get(BEFORE), row.get(CHANGE)
    if before not in (None, "") and change not in (None, ""):
        base = _whole(row, BEFORE)
        if base and abs(100 * (revenue / base - 1) - float(str(change))) > 0.1:  # noqa: PLR2004 - percent, rounding
            raise ValueError("the printed change does not follow from the two months: columns or units have moved")
    published = roc_day(str(row.get(PUBLISHED, "")))
    end = dt.date(year, month, calendar.monthrange(year, month)[1])
    code = str(row[CODE]).strip()
    return {
        "entity": WATCHED[code],
        "metric": MONTHLY,
        "fiscal_period": f"{year:04d}-{month:02d}",
        "period_start": end.replace(day=1),
        "period_end": end,
        "value": revenue * THOUSAND,
        "currency": "TWD",
        "precision": THOUSAND,
        "concept": REVENUE,
        "known_at": dt.datetime.combine(published, dt.time(), dt.UTC) if published else payload.retrieved_at,
        "known_at_precision": "day" if published else "retrieved",
        "source_name": f"open data of the exchange, {row.get(NAME, code)}",
        "source_url": FEEDS["TPEX"] if WATCHED[code].endswith(".TWO") else FEEDS["TWSE"],
    }


def _whole(row: Mapping[str, Any], key: str) -> float:
    text = str(row[key]).replace(",", "").strip()
    if not re.fullmatch(r"\d+", text):
        raise ValueError(f"{key} is {text!r}, not a whole number of thousands")
    return float(text)


def roc_month(text: str) -> tuple[int, int]:
    """`11503` is March 2026: the year counts from 1911. Raises `ValueError`."""
    if not re.fullmatch(r"\d{4,5}", text):
        raise ValueError(f"{text!r} is no month of the ROC calendar")
    year, month = int(text[:-2]) + ROC_YEAR_ZERO, int(text[-2:])
    return year, dt.date(year, month, 1).month


def roc_day(text: str) -> dt.date | None:
    """`1150411` is 11 April 2026; None for anything else."""
    if not re.fullmatch(r"\d{6,7}", text):
        return None
    try:
        return dt.date(int(text[:-4]) + ROC_YEAR_ZERO, int(text[-4:-2]), int(text[-2:]))
    except ValueError:
        return None


SOURCE = TaiwanRevenue()
