"""Reading tables of figures: split cells, brackets, headings in several rows, units, cells that are not displayed."""

from __future__ import annotations

import datetime as dt

import pytest

from filings.release_factory import table
from sources.sec.figures import find_line, plain
from sources.sec.htmltables import read_html, sgml_field
from sources.sec.statements import number, parse_date, percent, read_statement


def statement(html, month=12):
    (one,) = [s for t in read_html(html).tables if (s := read_statement(t, month)) is not None]
    return one


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("75,246", 75246.0),
        ("$ 75,246", 75246.0),
        ("(44,203)", -44203.0),
        ("( 44,203 )", -44203.0),
        ("\u2014", 0.0),
        ("3.03", 3.03),
        ("75 %", None),
        ("Up 18%", None),
        ("N/A", None),
        ("12,34", None),
        ("", None),
    ],
)
def test_numbers(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18 %", 18),
        ("(13) %", -13),
        ("(13 )%", -13),
        ("Up 1,018%", 1018),
        ("Down 8%", -8),
        ("Flat", 0),
        ("\u2014", 0),
        ("18", None),
    ],
)
def test_changes_in_percent(text, value):
    assert percent(text) == value


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("July 1,2023", dt.date(2023, 7, 1)),
        ("Nov. 19, 2025", dt.date(2025, 11, 19)),
        ("Three Months Ended April 26, 2026", dt.date(2026, 4, 26)),
        ("Sept 3, 2026", dt.date(2026, 9, 3)),
        ("February 30, 2026", None),
        ("July 1, 2023 and July 2, 2022", None),
    ],
)
def test_dates(text, day):
    assert parse_date(text) == day


def test_the_current_period_is_found_by_its_heading_not_its_place():
    """Amazon prints the prior year first."""
    one = statement(
        "<p>(in millions)</p>"
        + table(
            [
                ("", "Three Months Ended March 31, 2025", "Three Months Ended March 31, 2026"),
                ("Purchases of property and equipment", "(25,019)", "(44,203)"),
            ]
        )
    )
    assert [c.fiscal_period for c in one.columns] == ["FY25Q1", "FY26Q1"]
    assert one.lines[0].numbers == (-25019, -44203)
    assert one.scale == 1e6


def test_headings_in_two_rows_and_a_heading_over_several_columns():
    html = (
        "<table><tr><td colspan='3'></td><td colspan='6'>Three Months Ended</td><td colspan='6'>Nine Months Ended</td></tr>"
        "<tr><td colspan='3'></td><td colspan='3'>September 30, 2025</td><td colspan='3'>September 30, 2024</td>"
        "<td colspan='3'>September 30, 2025</td><td colspan='3'>September 30, 2024</td></tr>"
        "<tr><td colspan='3'>(In thousands)</td></tr>"
        "<tr><td colspan='3'>Capital expenditures</td><td>$</td><td>3,278,786</td><td></td><td>$</td><td>1,215,155</td><td></td>"
        "<td>$</td><td>9,000,000</td><td></td><td>$</td><td>4,000,000</td><td></td></tr></table>"
    )
    one = statement(html)
    assert [(c.length, c.fiscal_period) for c in one.columns] == [
        (1, "FY25Q3"),
        (1, "FY24Q3"),
        (3, "FY25Q3"),
        (3, "FY24Q3"),
    ]
    assert one.scale == 1e3
    assert one.lines[0].numbers == (3278786, 1215155, 9000000, 4000000)


def test_cells_that_are_not_displayed_take_no_column():
    html = (
        "<table><tr><td colspan='3'>($ in millions)</td><td colspan='3' style='display:none'></td><td colspan='3'>Q1 FY27</td></tr>"
        "<tr><td colspan='3'>Data Center</td><td>$</td><td>75,246</td><td></td></tr></table>"
    )
    one = statement(html.replace("'", '"'), 1)
    assert (one.columns[0].fiscal_period, one.lines[0].numbers, one.stray) == ("FY27Q1", (75246,), 0)


def test_a_cell_over_two_rows_shifts_the_second():
    html = (
        '<table><tr><td colspan="3" rowspan="2">(in millions)</td><td colspan="6">GAAP</td></tr>'
        '<tr><td colspan="3">FQ2-26</td><td colspan="3">FQ1-26</td></tr>'
        '<tr><td colspan="3">Revenue</td><td>$</td><td>23,860</td><td></td><td>$</td><td>13,643</td><td></td></tr></table>'
    )
    one = statement(html, 8)
    assert [c.fiscal_period for c in one.columns] == ["FY26Q2", "FY26Q1"]
    assert one.lines[0].numbers == (23860, 13643)


def test_a_figure_under_no_heading_is_counted_as_stray():
    one = statement(table([("($ in millions)", "Q1 FY27", ""), ("Data Center", "75,246", "62,314")]), 1)
    assert one.stray == 1


def test_two_units_in_one_table_are_no_unit():
    one = statement(
        table([("($ in millions)", "Q1 FY27"), ("Data Center", "75,246"), ("Other (in thousands)", "1,000")]), 1
    )
    assert one.scale is None


def test_a_trailing_year_is_not_a_fiscal_year():
    one = statement(
        "<p>(in millions)</p>"
        + table([("", "Twelve Months Ended March 31, 2026"), ("Purchases of property and equipment", "(151,003)")])
    )
    assert one.columns[0].kind == "other"


def test_dates_beside_as_of_are_a_balance_not_a_period():
    one = statement(table([("As of", "August 28, 2025"), ("Inventories", "8,355")]), 8)
    assert (one.columns[0].kind, one.columns[0].fiscal_period) == ("instant", "FY25Q4")


def test_contacts_are_no_table_of_figures():
    page = read_html(table([("Investor Relations", "Press"), ("ir@example.com", "press@example.com")]))
    assert read_statement(page.tables[0], 1) is None


def test_labels_are_compared_without_marks():
    one = statement(
        table([("($ in millions)", "Q1 FY27"), ("AI Clouds, Industrial, &amp; Enterprise (1)", "37,377")]), 1
    )
    assert find_line(one, "AI Clouds, Industrial and Enterprise") is not None
    assert plain("Data Center (2):") == "data center"


def test_the_wrapper_of_edgar_names_the_exhibit():
    assert sgml_field("<DOCUMENT>\n<TYPE>EX-99.2\n<FILENAME>cfo.htm\n<TEXT><html>", "TYPE") == "EX-99.2"
    assert sgml_field("<html>", "TYPE") == ""
