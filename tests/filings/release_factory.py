"""Releases written by hand in the shape of EDGAR exhibits: split cells, wide headings, brackets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sources.base import Payload
from sources.sec.bundles import MEDIA_TYPE, pack


def wide(text: str) -> str:
    """A cell over three columns, as headings and labels are."""
    return f'<td colspan="3" style="padding:2px"><span style="font-size:9pt">{text}</span></td>'


def split(text: str) -> str:
    """A figure over three columns: sign of money, digits, closing bracket or percent sign."""
    if text.endswith("%"):
        return f'<td colspan="2">{text[:-1].strip()}</td><td>%</td>'
    if text.startswith("$"):
        return f"<td>$</td><td>{text[1:]}</td><td></td>"
    if text.startswith("("):
        return f'<td colspan="2">{text[:-1]}</td><td>)</td>'
    return f'<td colspan="2">{text}</td><td></td>'


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table; a row of one text spans everything, the first cell of the others is the label."""
    width = 3 * max(len(r) for r in rows)
    out = []
    for row in rows:
        if len(row) == 1:
            out.append(f'<tr><td colspan="{width}">{row[0]}</td></tr>')
        else:
            figures = any(ch.isdigit() for ch in row[1]) and not row[1].startswith(("Q", "FY", "FQ"))
            cells = [wide(row[0])] + [split(c) if figures else wide(c) for c in row[1:]]
            out.append(f"<tr>{''.join(cells)}</tr>")
    return f"<div><table>{''.join(out)}</table></div>"


def exhibit(kind: str, name: str, body: str) -> bytes:
    """The wrapper of EDGAR around an HTML page."""
    return (
        f"<DOCUMENT>\n<TYPE>{kind}\n<SEQUENCE>2\n<FILENAME>{name}\n<DESCRIPTION>{kind}\n<TEXT>\n"
        f"<html><head><title>Document</title></head><body>{body}</body></html>"
    ).encode()


PLATFORMS = (
    ("Revenue by Market Platform",),
    ("($ in millions)", "Q3 FY26", "Q2 FY26", "Q3 FY25", "Q/Q", "Y/Y"),
    ("Data Center", "$51,215", "$41,096", "$30,771", "25 %", "66 %"),
    ("Compute", "43,028", "33,844", "27,644", "27 %", "56 %"),
    ("Networking", "8,187", "7,252", "3,127", "13 %", "162 %"),
    ("Gaming", "4,265", "4,287", "3,279", "(1) %", "30 %"),
    ("Professional Visualization", "760", "601", "486", "26 %", "56 %"),
    ("Automotive", "592", "586", "449", "1 %", "32 %"),
    ("OEM and Other", "174", "173", "97", "1 %", "79 %"),
    ("Total", "$57,006", "$46,743", "$35,082", "22 %", "62 %"),
)
SUMMARY = (
    ("GAAP",),
    ("($ in millions, except earnings per share)", "Q3 FY26", "Q2 FY26", "Q3 FY25", "Q/Q", "Y/Y"),
    ("Revenue", "$57,006", "$46,743", "$35,082", "22 %", "62 %"),
    ("Operating income", "$36,010", "$28,440", "$21,869", "27 %", "65 %"),
)
DATES = (
    ("Three Months Ended",),
    ("", "October 26, 2025", "July 27, 2025", "October 27, 2024"),
    ("Gross profit, GAAP", "$41,849", "$33,853", "$26,156"),
)
TEXT = (
    "<div>Exhibit 99.1</div><div>NVIDIA Announces Financial Results for Third Quarter Fiscal 2026</div>"
    "<div>SANTA CLARA, Calif.\u2014Nov. 19, 2025\u2014 NVIDIA (NASDAQ: NVDA) today reported revenue for the third "
    "quarter ended October 26, 2025, of $57.0 billion.</div>"
    "<div>NVIDIA\u2019s outlook for the fourth quarter of fiscal 2026 is as follows:</div>"
    "<div>\u2022 Revenue is expected to be $65.0 billion, plus or minus 2%.</div>"
    "<div>\u2022 GAAP and non-GAAP gross margins are expected to be 74.8% and 75.0%, plus or minus 50 basis points.</div>"
)


def nvidia(platforms: Sequence[Sequence[str]] = PLATFORMS, text: str = TEXT) -> Payload:
    """A release and its commentary, as one payload."""
    return bundle(
        [
            ("q3fy26pr.htm", "EX-99.1", text),
            ("q3fy26cfocommentary.htm", "EX-99.2", table(SUMMARY) + table(platforms) + table(DATES)),
        ]
    )


def bundle(parts: Sequence[tuple[str, str, str]], meta: dict[str, str] | None = None) -> Payload:
    members = [(name, exhibit(kind, name, body)) for name, kind, body in parts]
    return Payload(
        "sec-release",
        "file:filing.tar",
        dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
        MEDIA_TYPE,
        pack(meta or {}, members),
    )
