"""Which source's frames need deriving before they fit a table, and by what.

Belongs here: the table of derivations. Does not belong here: the derivations themselves (one module per subject).
A derivation gets the parsed frames and a reader of landed reference tables, and gives frames by table name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from warehouse.lake import Lake
from warehouse.schema import tables

Frames = Mapping[str, pl.DataFrame]
Reference = Callable[[str], pl.LazyFrame]


# Derivations that look at what earlier documents of the source landed: these land one document at a time.
SEQUENTIAL = frozenset({"job-mapping", "kubernetes", "slurm"})


def derive(source: str, frames: Frames, lake: Lake) -> dict[str, pl.DataFrame]:
    """Frames that fit declared tables; those that already do pass through."""
    run = DERIVATIONS.get(source) or DERIVATIONS.get(source.split("/", maxsplit=1)[0])
    if run is None:
        return dict(frames)
    return run(frames, lambda table: lake.scan(tables()[table]))


def _company_facts(frames: Frames, _reference: Reference) -> dict[str, pl.DataFrame]:
    from assets import filings

    return filings.derive(frames)


def _mlperf(frames: Frames, reference: Reference) -> dict[str, pl.DataFrame]:
    from assets import mlperf

    aliases, accelerators = reference("ref.accelerator_aliases"), reference("ref.accelerators")
    return mlperf.derive(frames, aliases=aliases.collect(), accelerators=accelerators.collect())


def _gpu_prices(frames: Frames, reference: Reference) -> dict[str, pl.DataFrame]:
    from assets import prices

    return prices.derive(frames, lambda: reference("ref.fx_rates").collect(), reference("market.gpu_offers"))


def _jobs(frames: Frames, reference: Reference) -> dict[str, pl.DataFrame]:
    from assets import jobs

    return jobs.derive(frames, reference)


def _models(frames: Frames, reference: Reference) -> dict[str, pl.DataFrame]:
    from assets import models

    return models.derive(frames, reference)


def _inference(frames: Frames, reference: Reference) -> dict[str, pl.DataFrame]:
    from assets import inference

    return inference.derive(frames, reference)


DERIVATIONS: dict[str, Callable[[Frames, Reference], dict[str, pl.DataFrame]]] = {
    "gpu-prices": _gpu_prices,
    "inference-metrics": _inference,
    "job-mapping": _jobs,
    "kubernetes": _jobs,
    "mlperf-inference": _mlperf,
    "mlperf-training": _mlperf,
    "model-config": _models,
    "sec-companyfacts": _company_facts,
    "slurm": _jobs,
    "training-log": _models,
}
