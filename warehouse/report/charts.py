"""What the charts have in common: data, colours that stay apart for colour-blind readers, sizes.

Belongs here: helpers around Altair. Does not belong here: any one chart.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from warehouse.report.reader import Row

# Okabe and Ito, without the yellow that vanishes on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#8C8C8C", "#A6761D")
BLUE, ORANGE, GREEN, RED, SKY, PINK, GREY, BROWN = COLOURS


def data(rows: Iterable[Row], *keys: str) -> alt.Data:
    """Rows as inline data, only the named keys; days and instants as text without a zone, so they are drawn in UTC."""
    return alt.Data(values=[{key: _plain(row.get(key)) for key in keys} for row in rows])


def base(rows: Iterable[Row], *keys: str, height: int = 280) -> alt.Chart:
    """A chart as wide as the page."""
    return alt.Chart(data(rows, *keys)).properties(width="container", height=height)


def colours(order: Sequence[str]) -> alt.Scale:
    """One colour for each name, in this order."""
    return alt.Scale(domain=list(order), range=[COLOURS[i % len(COLOURS)] for i in range(len(order))])


def tip(field: str, title: str, fmt: str | None = None) -> alt.Tooltip:
    """One line of a tooltip; a field that is a day is named so by its type suffix."""
    return alt.Tooltip(field, title=title, format=fmt) if fmt else alt.Tooltip(field, title=title)


def rows_high(count: int, each: int = 26, least: int = 120) -> int:
    """Height of a chart with one line for each row."""
    return max(least, 40 + each * count)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S") if value.tzinfo else value.isoformat()
    if isinstance(value, dt.date):
        return f"{value:%Y-%m-%dT00:00:00}"
    return value
