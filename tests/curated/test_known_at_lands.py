"""How exactly facts are dated, on the way into the lake: an older lake, and sources that give only their retrieval."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
from deltalake import DeltaTable, Schema, write_deltalake

from assets.street import receive
from sources.base import Payload
from sources.curated import SOURCE
from warehouse.home import Home
from warehouse.lake import Lake, delta_schema
from warehouse.schema.disclosures import Cluster

AT = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
HEADER = "cluster_id,cluster,status,accelerator_count,source_name,source_url,known_at,certainty,checked,notes"


def clusters(*rows: str, header: str = HEADER) -> Payload:
    body = "\n".join((header, *rows, "")).encode()
    return Payload("curated", "file:market.clusters.csv", AT, "text/csv", body, stream="market.clusters")


def landed(home: Home) -> dict[str, str | None]:
    rows = Lake(home.lake).scan(Cluster).collect()
    return dict(rows.select("cluster_id", "known_at_precision").iter_rows())  # type: ignore[arg-type]


def test_a_row_known_by_its_retrieval_alone_says_so(home: Path) -> None:
    at = Home.at(home).prepare()
    known_then = "a,A,operating,1,page,,2024-05-01,high,read,"
    retrieved = f"b,B,operating,2,page,,{AT:%Y-%m-%d},high,read,"
    receive(at, SOURCE, [clusters(known_then, retrieved)])
    assert landed(at) == {"a": None, "b": "retrieved"}


def test_what_a_row_says_itself_stands(home: Path) -> None:
    at = Home.at(home).prepare()
    row = f"a,A,operating,1,page,,{AT:%Y-%m-%d},high,read,,day"
    receive(at, SOURCE, [clusters(row, header=f"{HEADER},known_at_precision")])
    assert landed(at) == {"a": "day"}


def test_an_older_lake_opens_and_gains_the_column(home: Path) -> None:
    at = Home.at(home).prepare()
    path = Lake(at.lake).path(Cluster)
    path.mkdir(parents=True)
    before = Schema([f for f in delta_schema(Cluster).fields if f.name != "known_at_precision"])
    DeltaTable.create(str(path), before, mode="error")
    old = {"cluster_id": "old", "cluster": "Old", "status": "operating", "source": "elsewhere", "known_at": AT}
    write_deltalake(str(path), pl.DataFrame([old]).to_arrow(), mode="append", schema_mode="merge")
    receive(at, SOURCE, [clusters("new,New,operating,1,page,,2024-05-01,high,read,")])
    assert landed(at) == {"old": None, "new": None}
