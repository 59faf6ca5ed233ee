"""Quarters and years of one company from the facts its filings repeat, each in every vintage.

Belongs here: choosing the concept, telling periods apart, differencing year-to-date figures. Does not belong here:
reading files, the shape of `market.financials` (`assets/filings.py`).

Words: a *vintage* is one filing's statement of a period. Its *generation* says how many fiscal years after the period
the filing's own year lies: 0 in the year itself, 1 where the next year's filing repeats it as comparative. A quarter
is differenced only between two figures of one generation, because a restatement reaches the comparatives one by one.
"""

from __future__ import annotations

import polars as pl

from sources.sec.companies import COMPANIES
from sources.sec.concepts import METRICS
from sources.sec.fiscal import YEAR_END_DRIFT_DAYS, fiscal_columns

_SERIES = ["entity", "metric", "unit"]
_PERIOD = [*_SERIES, "start", "end"]
# Days of a period by its length in quarters: 12 to 14 weeks a quarter, 52 or 53 weeks a year.
_LENGTHS = {1: (84, 99), 2: (175, 190), 3: (266, 281), 4: (357, 378)}
_BASES = {0: "instant", 1: "quarter", 2: "half", 3: "nine_months", 4: "year"}
_REPORTS = r"^(10-K|10-KT|10-Q|10-QT|20-F|40-F)(/A)?$"
_FORMS = r"^(10-K|10-KT|10-Q|10-QT|20-F|40-F|8-K|6-K)(/A)?$"


def vintages(facts: pl.DataFrame) -> pl.DataFrame:
    """Every stated or derived quarter, year and instant.

    `facts`: rows of `raw.company_facts`. Result: entity, cik, metric, unit, concept, fiscal_year, fiscal_quarter,
    basis (quarter, year, instant), start, end, val, filed, form, accn, derivation, disagreement.
    """
    stated = _generations(_one_concept(_periods(_typed(facts))))
    quarters = stated.filter(pl.col("quarters") == 1)
    derived = _differences(stated)
    beside = [*_SERIES, "end", "accn"]
    checked = quarters.join(
        derived.select(*beside, pl.col("val").alias("derived_val")), on=beside, how="left"
    ).with_columns(
        disagreement=pl.when(pl.col("derived_val") != pl.col("val")).then(pl.col("derived_val")),
    )
    # A filing that gives a half year the figure of a quarter would else take the place of the quarter as stated.
    stated_before = derived.join(
        quarters.select(*_SERIES, "end", "generation", stated_on="filed"), on=[*_SERIES, "end", "generation"]
    ).filter(pl.col("stated_on") <= pl.col("filed"))
    only_derived = derived.join(stated_before, on=[*_SERIES, "end", "filed"], how="anti")
    whole = stated.filter(pl.col("quarters").is_in([0, 4]))
    columns = [*_PERIOD, "cik", "concept", "fiscal_year", "fiscal_quarter", "val", "filed", "form", "accn"]
    rows = pl.concat([checked, only_derived, whole], how="diagonal_relaxed")
    return rows.select(
        *columns,
        "derivation",
        "disagreement",
        basis=pl.col("quarters").replace_strict(_BASES, return_dtype=pl.String),
    ).sort(*_SERIES, "end", "basis", "filed", "accn")


def _typed(facts: pl.DataFrame) -> pl.DataFrame:
    """Facts of the forms that state results, with dates, metric and the fiscal calendar of the company."""
    metrics = pl.DataFrame(
        [
            {"concept": concept, "metric": m.name, "is_flow": m.kind == "flow", "preference": i}
            for m in METRICS
            for i, concept in enumerate(m.concepts)
        ]
    )
    calendars = pl.DataFrame([{"entity": c.ticker, "year_end_month": c.year_end_month} for c in COMPANIES])
    return (
        facts.unique(maintain_order=True)
        .filter(pl.col("form").str.contains(_FORMS))
        .with_columns(pl.col("start", "end", "filed").str.to_date("%Y-%m-%d", strict=False))
        .drop_nulls(["end", "filed"])
        .join(metrics, on="concept")
        .join(calendars, on="entity")
        .filter(pl.col("start").is_not_null() == pl.col("is_flow"))
    )


def _periods(facts: pl.DataFrame) -> pl.DataFrame:
    """Keep instants, quarters, and year-to-date or whole-year periods; a trailing year inside the year goes."""
    days = (pl.col("end") - pl.col("start")).dt.total_days() + 1
    length = pl.lit(None, pl.Int32)
    for quarters, (low, high) in _LENGTHS.items():
        length = pl.when(days.is_between(low, high)).then(pl.lit(quarters, pl.Int32)).otherwise(length)
    at_year_end = pl.col("year_end_gap_days") <= YEAR_END_DRIFT_DAYS
    return (
        facts.with_columns(fiscal_columns(pl.col("end"), pl.col("year_end_month")).alias("fiscal"))
        .unnest("fiscal")
        .with_columns(quarters=pl.when(pl.col("is_flow")).then(length).otherwise(pl.lit(0, pl.Int32)))
        .filter(
            pl.col("fiscal_quarter").is_not_null(),
            # A two-, three- or four-quarter period counts only if it starts with the fiscal year.
            (pl.col("quarters") <= 1) | (pl.col("quarters") == pl.col("fiscal_quarter")),
            (pl.col("quarters") < 4) | at_year_end,  # noqa: PLR2004
        )
    )


def _one_concept(facts: pl.DataFrame) -> pl.DataFrame:
    """One value a period and filing: the concept in use, and others only where they are shown to mean the same.

    The concept in use is the one with the newest end. Another concept of the metric is taken for the periods the
    first does not cover, if the two share at least one period and agree on each they share.
    """
    used = facts.group_by(*_SERIES, "concept").agg(
        pl.col("end").max().alias("newest"), pl.len().alias("n"), pl.col("preference").first()
    )
    main = (
        used.sort("newest", "n", "preference", descending=[True, True, False])
        .unique(["entity", "metric"], keep="first", maintain_order=True)
        .select(*_SERIES, pl.col("concept").alias("main_concept"))
    )
    facts = facts.join(main, on=_SERIES)
    in_use = facts.filter(pl.col("concept") == pl.col("main_concept"))
    others = facts.filter(pl.col("concept") != pl.col("main_concept"))
    same = (
        others.join(in_use.select(*_PERIOD, pl.col("val").alias("main_val")), on=_PERIOD, nulls_equal=True)
        .group_by(*_PERIOD, "concept")
        .agg((pl.col("val") == pl.col("main_val")).any().alias("agrees"))
        .group_by(*_SERIES, "concept")
        .agg(pl.col("agrees").all())
        .filter("agrees")
    )
    others = others.join(same, on=[*_SERIES, "concept"], how="semi")
    return (
        pl.concat(
            [
                in_use.with_columns(turn=pl.lit(0, pl.Int64)),
                others.with_columns(turn=pl.col("preference").cast(pl.Int64) + 1),
            ]
        )
        .sort("turn", "filed")
        .unique([*_PERIOD, "accn"], keep="first", maintain_order=True)
    )


def _generations(facts: pl.DataFrame) -> pl.DataFrame:
    """Add `generation`, and `before`: the same period's value in the generation before, where known."""
    own_year = pl.col("fiscal_year").max().over(*_SERIES, "accn")
    facts = facts.with_columns(generation=own_year - pl.col("fiscal_year")).sort("filed", "accn")
    last = facts.filter(pl.col("form").str.contains(_REPORTS)).unique(
        [*_PERIOD, "generation"], keep="last", maintain_order=True
    )
    earlier = last.select(*_PERIOD, generation=pl.col("generation") + 1, before=pl.col("val"))
    return facts.join(earlier, on=[*_PERIOD, "generation"], how="left", nulls_equal=True)


def _differences(stated: pl.DataFrame) -> pl.DataFrame:
    """Quarters 2 to 4 as year to date less the year to date one quarter before, within one generation.

    The figure taken away is the newest of that generation at the time. An amended figure needs an amended one to be
    taken from. Refused: a comparative restated while its partner is not (the whole change would fall on one quarter).
    """
    reports = stated.filter(pl.col("form").str.contains(_REPORTS), pl.col("quarters") >= 1).with_columns(
        amended=pl.col("form").str.ends_with("/A")
    )
    by = [*_SERIES, "start", "generation", "quarters"]
    smaller = reports.filter(pl.col("quarters") == pl.col("fiscal_quarter")).select(
        *_SERIES,
        "start",
        "generation",
        "filed",
        "amended",
        quarters=pl.col("quarters") + 1,
        less_end="end",
        less_val="val",
        less_before="before",
        less_accn="accn",
    )
    larger = reports.filter(pl.col("quarters") > 1).sort("filed")
    amended = pl.col("amended")
    pairs = pl.concat(
        [
            _newest_before(larger.filter(~amended), smaller, by),
            _newest_before(larger.filter(amended), smaller.filter(amended), by),
        ]
    )
    one_sided = (pl.col("val") != pl.col("before")) & (pl.col("less_val") == pl.col("less_before"))
    text = pl.format(
        "{} to {} less {} to {} ({})",
        pl.when(pl.col("quarters") == 4).then(pl.lit("fiscal year")).otherwise(pl.lit("year to date")),  # noqa: PLR2004
        "end",
        pl.lit("year to date"),
        "less_end",
        "less_accn",
    )
    days = (pl.col("end") - pl.col("less_end")).dt.total_days()
    return (
        pairs.drop_nulls("less_val")
        .filter(~one_sided.fill_null(value=False), days.is_between(*_LENGTHS[1]))
        .with_columns(
            derivation=text,
            start=pl.col("less_end") + pl.duration(days=1),
            val=pl.col("val") - pl.col("less_val"),
            quarters=pl.lit(1, pl.Int32),
        )
    )


def _newest_before(larger: pl.DataFrame, smaller: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Join each larger period with the newest statement of the smaller one filed no later."""
    smaller = smaller.drop("amended").sort("filed")
    return larger.join_asof(smaller, on="filed", by=by, strategy="backward", check_sortedness=False)
