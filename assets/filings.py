"""From what filings state to the rows of `market.financials`.

Belongs here: the last step of each filing source before the gate. Does not belong here: reading documents
(`sources/sec`), how quarters are found (`assets/filings_quarters.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from assets.filings_quarters import vintages
from sources.sec.concepts import METRICS

RAW_FACTS = "raw.company_facts"
FINANCIALS = "market.financials"
_LENGTH_IN_WORDS = {"quarter": "three months", "year": "fiscal year", "instant": "at period end"}
# Companies whose own "capital expenditures" are cash purchases plus principal payments on finance leases.
_COUNTS_LEASE_PRINCIPAL = ("META",)
_KEY = ["entity", "metric", "definition_version", "fiscal_period", "known_at"]


def derive(parsed: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`raw.company_facts` to `market.financials`; every other frame passes unchanged."""
    frames = {name: frame for name, frame in parsed.items() if name != RAW_FACTS}
    if RAW_FACTS in parsed:
        frames[FINANCIALS] = financials(parsed[RAW_FACTS])
    return frames


def financials(facts: pl.DataFrame) -> pl.DataFrame:
    """Rows of `market.financials` (without source, payload and retrieval, which the street adds)."""
    rows = vintages(facts)
    rows = pl.concat([rows, _including_lease_principal(rows), _lease_liability(rows)], how="diagonal_relaxed")
    meanings = {m.name: m.meaning for m in METRICS} | {
        "capex_incl_finance_lease_principal": "cash purchases of property and equipment plus principal payments on "
        "finance leases"
    }
    year = pl.format("FY{}", (pl.col("fiscal_year") % 100).cast(pl.String).str.zfill(2))
    is_usd = pl.col("unit") == "USD"
    return (
        rows.with_columns(
            definition_version=pl.lit("1"),
            fiscal_period=pl.when(pl.col("basis") == "year")
            .then(year)
            .otherwise(pl.format("{}Q{}", year, "fiscal_quarter")),
            known_at=pl.col("filed").cast(pl.Datetime("us", "UTC")),
        )
        # Two filings of one day: the later accession speaks.
        .sort(*_KEY, "accn")
        .unique(_KEY, keep="last", maintain_order=True)
        .select(
            "entity",
            "metric",
            "definition_version",
            "fiscal_period",
            period_basis="basis",
            period_start="start",
            period_end="end",
            value_usd=pl.when(is_usd).then("val"),
            value="val",
            currency="unit",
            unit="unit",
            definition=pl.format(
                "{} ({}), {}",
                pl.col("metric").replace_strict(meanings, return_dtype=pl.String),
                "concept",
                pl.col("basis").replace_strict(_LENGTH_IN_WORDS, return_dtype=pl.String),
            ),
            concept="concept",
            derivation="derivation",
            form="form",
            accession="accn",
            known_at="known_at",
            known_at_precision=pl.lit("day"),
            source_name=pl.format("EDGAR company facts, {} filed {}", "form", "filed"),
            source_url=pl.format(
                "https://www.sec.gov/Archives/edgar/data/{}/{}/", "cik", pl.col("accn").str.replace_all("-", "")
            ),
            notes=pl.when(pl.col("disagreement").is_not_null()).then(
                pl.format("differencing the year-to-date figures gives {}", pl.col("disagreement").cast(pl.Int64))
            ),
        )
    )


def _including_lease_principal(rows: pl.DataFrame) -> pl.DataFrame:
    """Cash purchases plus finance-lease principal, summed only within one filing."""
    on = ["entity", "unit", "start", "end", "basis", "accn"]
    rows = rows.filter(pl.col("entity").is_in(_COUNTS_LEASE_PRINCIPAL), pl.col("basis") != "instant")
    return _together(rows, "capex_cash_ppe", "finance_lease_principal_payments", on).with_columns(
        metric=pl.lit("capex_incl_finance_lease_principal")
    )


def _lease_liability(rows: pl.DataFrame) -> pl.DataFrame:
    """Finance lease liability as current plus later part of one filing, where that filing states no total."""
    on = ["entity", "unit", "end", "basis", "accn"]
    total = rows.filter(pl.col("metric") == "finance_lease_liability")
    parts = _together(rows, "finance_lease_liability_current", "finance_lease_liability_noncurrent", on)
    return parts.join(total, on=on, how="anti").with_columns(metric=pl.lit("finance_lease_liability"))


def _together(rows: pl.DataFrame, first: str, second: str, on: list[str]) -> pl.DataFrame:
    """Sum of two metrics of one filing and period, with the words that say so."""
    addend = rows.filter(pl.col("metric") == second).select(*on, "val", "concept", "derivation")
    together = rows.filter(pl.col("metric") == first).join(addend, on=on, suffix="_second")
    return together.with_columns(
        val=pl.col("val") + pl.col("val_second"),
        concept=pl.format("{} + {}", "concept", "concept_second"),
        derivation=pl.concat_str(
            pl.lit("sum of the two concepts"), "derivation", "derivation_second", separator="; ", ignore_nulls=True
        ),
    ).drop("val_second", "concept_second", "derivation_second")
