"""A small warehouse that gives every section of the report something to show."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import polars as pl
from marts.tables import at, database, fill, on

from sources.curated import columns as curated_columns
from warehouse.home import Home
from warehouse.marts import marts

URL = {"source": "curated", "source_name": "a paper", "source_url": "https://example.org/paper", "certainty": "high"}
DAY = "2026-03-02"


def indicators() -> list[dict]:
    path = curated_columns.__file__.replace("columns.py", "ref.indicators.csv")
    wanted = ("indicator_id", "indicator_group", "name_en", "name_zh", "unit", "sources", "cadence", "feed", "gap")
    return pl.read_csv(path).select(wanted).to_dicts()


def capex() -> list[dict]:
    rows = []
    for entity, values in {"MSFT": (10e9, 20e9), "GOOGL": (5e9, 8e9)}.items():
        for (period, end), value in zip((("FY25Q1", "2025-03-31"), ("FY26Q1", "2026-03-31")), values, strict=True):
            row = {"entity": entity, "metric": "capex_cash_ppe", "definition_version": "1", "fiscal_period": period}
            row |= {"period_basis": "quarter", "period_end": on(end), "value": value, "value_usd": value}
            rows.append(row | {"currency": "USD", "unit": "USD", "known_at": at("2026-05-01T00:00")} | URL)
    return rows


def revenue() -> list[dict]:
    rows = []
    for metric in ("data_center_revenue", "revenue"):
        row = {"entity": "NVDA", "metric": metric, "definition_version": "1", "fiscal_period": "FY27Q1"}
        row |= {"period_basis": "quarter", "period_end": on("2026-04-26"), "value": 80e9, "value_usd": 80e9}
        rows.append(row | {"currency": "USD", "unit": "USD", "known_at": at("2026-05-20T00:00")} | URL)
    return rows


def guidance() -> list[dict]:
    nvda = {"entity": "NVDA", "metric": "revenue", "target_period": "FY27Q1", "channel": "release"}
    nvda |= {"low_usd": 76e9, "mid_usd": 78e9, "high_usd": 79e9, "known_at": at("2026-02-25T00:00")}
    googl = {"entity": "GOOGL", "metric": "capex_cash_ppe", "target_period": "FY26", "channel": "call"}
    googl |= {"low_usd": 175e9, "mid_usd": 180e9, "high_usd": 185e9, "known_at": at("2026-02-04T00:00")}
    return [nvda | URL, googl | URL]


def offers() -> list[dict]:
    row = {"sku": "h100", "region": "global", "operating_system": "linux", "price_kind": "on_demand"}
    row |= {"segment": "neocloud", "accelerator_id": "nvidia-h100-sxm5-80gb", "observed_at": at("2026-03-01T00:00")}
    return [row | URL | {"provider": p, "price_usd_per_gpu_hour": v} for p, v in (("cheap", 2.0), ("dear", 11.0))]


def results() -> list[dict]:
    row = {"round": "v5.1", "organization": "Org", "system_desc_id": "sys", "benchmark": "llama31_405b"}
    row |= {"benchmark_id": "llama31_405b", "submitter": "Org", "system": "Big", "accelerator": "H100", "run_count": 3}
    row |= {"accelerator_count": 512, "minutes": 100.0, "mfu_ratio": 0.4, "mfu_is_upper_bound": False}
    return [row | URL, row | URL | {"system_desc_id": "sys2", "accelerator_count": 1024, "minutes": 55.0}]


def runs() -> list[dict]:
    row = {"round": "v5.1", "organization": "Org", "system_desc_id": "sys", "benchmark": "llama31_405b"}
    row |= {"benchmark_id": "llama31_405b", "submitter": "Org", "outcome": "success", "slot": "kept", "minutes": 99.0}
    return [row | URL | {"run_file": "result_0.txt"}]


def disclosures() -> list[dict]:
    row = {"model": "M", "configuration": "x", "disclosure_kind": "training_run", "mfu_ratio": 0.41}
    return [row | URL | {"accelerator_count": 8192, "published_date": on("2025-01-01")}]


def interruptions() -> list[dict]:
    row = {"study": "Run", "system": "S", "condition": "all", "unit": "events", "metric": "unexpected interruptions"}
    causes = [row | URL | {"category": c, "component_class": c, "event_count": n} for c, n in (("GPU", 6), ("Host", 4))]
    share = {"category": "all", "metric": "goodput", "unit": "percent", "value": 95.0}
    return [*causes, row | URL | share]


def policy() -> list[dict]:
    row = {
        "document_id": "2026-1",
        "jurisdiction": "US",
        "authority": "BIS",
        "document_kind": "rule",
        "title": "A rule",
    }
    return [row | URL | {"publication_date": on("2026-01-15")}]


def hours(**given) -> list[dict]:
    row = {"date": on(DAY), "gpu_uuid": "A", "seconds_covered": 3600, "sample_count": 9, "energy_seconds": 0}
    row |= {"gpu_util_mean_ratio": 0.5, "power_mean_w": 500, "tensor_active_mean_ratio": 0.3, "inactive_seconds": 600}
    return [row | {"hour_at": at(f"{DAY}T0{n}:00")} | given for n in range(3)]


def events(**given) -> list[dict]:
    row = {"occurred_at": at(f"{DAY}T01:00"), "device": "A", "kind": "xid", "event_id": "79", "code": 79}
    return [row | {"severity": "fatal", "message": "fell off the bus"} | given]


def link_counters(**given) -> list[dict]:
    row = {"sampled_at": at(f"{DAY}T01:00"), "date": on(DAY), "device": "GPU-1", "link_kind": "nvlink", "link_index": 1}
    return [row | {"counter": "replay", "value": 9, "delta": 9, "delta_status": "counted"} | given]


def registered() -> list[dict]:
    row = {"publisher": "GPU Almanac", "homepage": "https://example.org", "licence": "facts", "authority": "curated"}
    row |= {"cadence": "daily", "last_landed_at": at("2026-03-01T00:00"), "stale_after_at": at("2026-03-04T00:00")}
    return [row | {"source": "curated"}, row | {"source": "other", "last_landed_at": None, "off_reason": "needs a key"}]


def warehouse(home: Path, *, synthetic: bool = False, **tables: list[dict]) -> Home:
    """A home with a published file; `schema__table=rows` replaces the rows of one table."""
    where = Home.at(home).prepare()
    cluster = {"is_synthetic": synthetic, "cluster": "demo" if synthetic else "c1"}
    rows = {
        "ref__indicators": indicators(),
        "market__financials": capex() + revenue(),
        "market__guidance": guidance(),
        "market__gpu_offers": offers(),
        "market__mlperf_results": results(),
        "market__mlperf_runs": runs(),
        "market__model_disclosures": disclosures(),
        "market__interruptions": interruptions(),
        "market__policy_documents": policy(),
        "telemetry__gpu_hours": hours(**cluster),
        "telemetry__gpu_events": events(**cluster),
        "telemetry__link_counters": link_counters(**cluster),
        "ops__sources": registered(),
    }
    con = database(str(where.database))
    for name, given in (rows | tables).items():
        fill(con, name.replace("__", "."), given)
    about = {"build_id": "b1", "published_at": dt.datetime(2026, 6, 1, tzinfo=dt.UTC), "almanac_version": "0"}
    con.register("incoming", pl.DataFrame([about]))
    con.execute("create table ops.build as select * from incoming")
    con.unregister("incoming")
    for mart in marts():
        con.execute(f"create table mart.{mart.name} as {mart.sql}")
    con.close()
    return where


def drop(home: Home, *tables: str) -> None:
    """Take tables out of the published file, as in a file of an older version."""
    with duckdb.connect(str(home.database)) as con:
        for table in tables:
            con.execute(f"drop table {table}")
