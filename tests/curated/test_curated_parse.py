"""The `curated` source as a parser: types, refused rows with their line, unreadable files, determinism."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from sources.base import FetchError, ParseError, Payload
from sources.curated import SOURCE, newest_day
from sources.curated.columns import DATES, FLAGS, INTEGERS, KEYS, NUMBERS, TABLES, TIMES
from warehouse.schema import tables
from warehouse.schema.declare import key_of, lake_schema

FIXTURES = Path(__file__).parents[1] / "fixtures" / "curated"
AT = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
HEADER = "entity,name,role,source_name,source_url,known_at,certainty,checked,notes"


def payload(body: bytes, table: str = "ref.entities") -> Payload:
    return Payload("curated", f"file:{table}.csv", AT, "text/csv", body, stream=table)


def packaged() -> list[Payload]:
    return list(SOURCE.fetch(None))  # type: ignore[arg-type]


def test_fixture_file_is_read_with_types() -> None:
    (read,) = SOURCE.read([FIXTURES], {"observed_at": "2026-03-01T00:00:00Z"})
    parsed = SOURCE.parse(read)
    frame = parsed.frames["ref.entities"]
    assert frame["entity"].to_list() == ["ACME", "GAMA"]
    assert frame["cik"].to_list() == ["0000000001", "0000000003"]
    assert frame["fiscal_year_end_month"].to_list() == [6, 12]
    assert frame["as_of_date"].to_list() == [dt.date(2026, 1, 31), None]
    assert frame["known_at"].to_list() == [
        dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
        dt.datetime(2026, 2, 1, 8, 30, tzinfo=dt.UTC),
    ]
    assert read.url == "file:ref.entities.csv"
    assert read.stream == "ref.entities"
    assert read.retrieved_at == dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def test_bad_cells_refuse_their_row_with_line_and_raw_form() -> None:
    (read,) = SOURCE.read([FIXTURES / "ref.entities.csv"], {})
    (reject,) = SOURCE.parse(read).rejects
    assert reject.table == "ref.entities"
    assert reject.locator == "line 3"
    assert "fiscal_year_end_month 'thirteen'" in reject.reason
    assert "as_of_date '2026-02-30'" in reject.reason
    assert "entity=BETA" in reject.raw


@pytest.mark.parametrize("cell", ["1e999", "nan", "1,5", "12 GB", "--"])
def test_a_number_that_is_none_refuses_its_row(cell: str) -> None:
    body = (
        f'cluster_id,power_mw,source_name,source_url,known_at,certainty,checked,notes\nc,"{cell}",s,,2026-01-01,x,,\n'
    )
    parsed = SOURCE.parse(payload(body.encode(), "market.clusters"))
    assert parsed.frames["market.clusters"].height == 0
    assert [r.locator for r in parsed.rejects] == ["line 2"]


def test_an_empty_cell_is_unknown_but_an_empty_zone_is_none() -> None:
    columns = (*KEYS["market.gpu_offers"], "price_usd_per_gpu_hour", "source_name", "source_url", "known_at")
    body = ",".join((*columns, "certainty", "checked", "notes")) + "\n"
    body += "2026-01-01,p,s,,global,,unknown,on_demand,0,,here,,2026-01-01,,,\n"
    frame = SOURCE.parse(payload(body.encode(), "market.gpu_offers")).frames["market.gpu_offers"]
    assert frame.select("offer_id", "zone", "price_usd_per_gpu_hour").row(0) == ("", "", None)


@pytest.mark.parametrize("body", [b"", b"\n", b"<html><body>sign in</body></html>", b"\xff\xfe\x00"])
def test_a_file_that_is_no_csv_of_ours_cannot_be_parsed(body: bytes) -> None:
    with pytest.raises(ParseError, match=r"ref\.entities\.csv"):
        SOURCE.parse(payload(body))


def test_a_missing_column_is_named() -> None:
    body = HEADER.replace("known_at,", "").encode() + b"\nA,a,vendor,s,,x,,\n"
    with pytest.raises(ParseError, match="lacks the column known_at"):
        SOURCE.parse(payload(body))


def test_a_row_with_too_many_cells_cannot_be_parsed() -> None:
    with pytest.raises(ParseError, match="is not a CSV file"):
        SOURCE.parse(payload(f"{HEADER}\n{',' * 20}\n".encode()))


def test_a_file_not_named_after_a_table_says_which_names_are() -> None:
    with pytest.raises(FetchError, match=r"one of market\.clusters"):
        list(SOURCE.read([Path("things.csv")], {}))


def test_every_table_is_declared_and_its_key_is_the_declared_one() -> None:
    for table in TABLES:
        assert set(key_of(tables()[table])) == {*KEYS[table], "source", "known_at"}, table


def test_types_by_name_are_the_declared_types() -> None:
    families = {"date": DATES, "time": TIMES, "whole": INTEGERS, "number": NUMBERS, "flag": FLAGS}
    of_type = {pl.Date: "date", pl.Datetime: "time", pl.Int64: "whole", pl.Float64: "number", pl.Boolean: "flag"}
    for each in packaged():
        columns = SOURCE.parse(each).frames[each.stream].columns
        for column in columns:
            declared = of_type.get(type(lake_schema(tables()[each.stream])[column]))
            listed = next((family for family, names in families.items() if column in names), None)
            assert listed == declared, f"{each.stream}.{column}"


def test_packaged_files_are_the_same_documents_on_every_run() -> None:
    first, second = packaged(), packaged()
    assert [(p.url, p.stream, p.sha256(), p.retrieved_at) for p in first] == [
        (p.url, p.stream, p.sha256(), p.retrieved_at) for p in second
    ]
    newest = {p.stream: p.retrieved_at for p in first}
    # The newest exchange of price lists in the reference facts is of 2026-10-04.
    assert newest["market.gpu_offers"] == dt.datetime(2026, 10, 4, tzinfo=dt.UTC)
    assert {p.url for p in first} >= {"curated:ref.accelerators.csv", "curated:market.financials.csv"}


def test_packaged_files_parse_without_a_refused_row() -> None:
    for each in packaged():
        assert not SOURCE.parse(each).rejects, each.url


def test_newest_day_of_a_file_is_that_of_knowledge_or_of_comparison() -> None:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert newest_day(b"a,b\n1,2\n") == epoch
    assert newest_day(b"") == epoch
    assert newest_day(b"known_at\nsoon\n") == epoch
    compared = b"known_at,as_of_date\n2024-07-31,2026-11-30\n2026-01-01T12:00:00Z,\n"
    assert newest_day(compared) == dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    assert newest_day(b"known_at\n2026-01-01T12:00:00Z\n") == dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
