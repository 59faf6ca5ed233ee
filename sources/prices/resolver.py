"""From any raw GPU name, SKU or memory hint to an `accelerator_id`, or to what is still possible.

Belongs here: applying the rules of `skus.csv`, `names.csv` and `catalogue.csv`. Does not belong here: a name or a
SKU as code. Nothing is guessed: an id is given only when form factor and memory leave one product.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files

import polars as pl

MEMORY_TOLERANCE = 0.08  # drivers report 5 to 7 % less than the nominal size (ECC, reserved pages)
SLICE_FORMS = ("MIG", "vGPU")
_BRANDS = re.compile(r"^(?:NVIDIA|AMD|GEFORCE|TESLA|INSTINCT|GRID)\s+")
_MEMORY = re.compile(r"(?<![\d.G])(\d+(?:\.\d+)?) ?GI?B\b")
_COUNT = re.compile(r"^(\d+) ?X ")
_MIG = re.compile(r"\bMIG\b.*?\d+G\.(\d+)GB")
_FORMS = (
    (re.compile(r"\bNVL(?:72|36)\b"), "NVL72"),
    (re.compile(r"\bNVL\b"), "NVL"),
    (re.compile(r"\bSXM([2-6])\b"), "SXM"),
    (re.compile(r"\b(?:SXM|HGX|DGX)\b"), "SXM"),
    (re.compile(r"\bPCI ?E\b"), "PCIe"),
    (re.compile(r"\bOAM\b"), "OAM"),
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a raw name means. `status`: resolved, partial (candidates remain), unresolved, not_a_gpu.

    `memory_gb` is of one GPU, or of the slice when `gpu_count` is below 1. `gpu_count` is how many GPUs the text
    describes: 1 for a bare GPU name, where `states_count` is false because the offer may hold any number of them.
    `rule` names the line that decided.
    """

    status: str
    rule: str
    accelerator_id: str | None = None
    model: str | None = None
    form_factor: str | None = None
    memory_gb: float | None = None
    gpu_count: float | None = None
    states_count: bool = False
    candidates: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Product:
    """One line of the catalogue."""

    accelerator_id: str
    model: str
    form_factor: str
    memory_gb: float


@dataclass(frozen=True, slots=True)
class _Says:
    """What a rule read off a text."""

    model: str
    form_factor: str
    memory_gb: float | None
    gpu_count: float | None
    states_count: bool


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    pattern: re.Pattern[str]
    model: str
    form_factor: str
    memory_gb: str
    gpus: str = ""
    flags: tuple[str, ...] = ()


def resolve(
    sku: str | None, name: str | None = None, *, provider: str = "", memory_gb: float | None = None
) -> Resolution:
    """Resolve a provider's SKU, its GPU name, or both; the SKU decides and a name that contradicts it is flagged.

    provider: whose SKU rules apply. memory_gb: memory of one GPU as the provider reports it, in GB or GiB.
    """
    by_sku = _by_sku(provider, sku, memory_gb)
    by_name = _by_sku(provider, name, memory_gb) or _by_name(name, memory_gb)
    if by_sku is None:
        return _better(by_name, _by_name(sku, memory_gb)) or _nearest(name or sku or "")
    if by_name and by_sku.accelerator_id and by_name.status != "not_a_gpu":
        possible = {by_name.accelerator_id} if by_name.accelerator_id else set(by_name.candidates)
        if by_sku.accelerator_id not in possible:
            return replace(by_sku, flags=(*by_sku.flags, "name_contradicts_sku"))
    return by_sku


def resolve_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Add what `resolve` says to rows with `provider`, `sku`, `gpu_name`, `memory_hint_gb`.

    Each distinct combination is resolved once, so the cost does not grow with the rows. Adds `accelerator_id`,
    `form_factor`, `memory_gb`, `rule_gpu_count`, `resolution`, `resolution_rule`, `candidates`, `rule_flags`.
    """
    keys = ["provider", "sku", "gpu_name", "memory_hint_gb"]
    distinct = frame.select(keys).unique(maintain_order=True)
    found = [resolve(s, n, provider=p, memory_gb=m) for p, s, n, m in distinct.iter_rows()]
    columns: dict[str, tuple[list[object], pl.DataType]] = {
        "accelerator_id": ([r.accelerator_id for r in found], pl.String()),
        "form_factor": ([r.form_factor for r in found], pl.String()),
        "memory_gb": ([r.memory_gb for r in found], pl.Float64()),
        "rule_gpu_count": ([r.gpu_count if r.states_count else None for r in found], pl.Float64()),
        "resolution": ([r.status for r in found], pl.String()),
        "resolution_rule": ([r.rule for r in found], pl.String()),
        "candidates": ([" ".join(r.candidates) or None for r in found], pl.String()),
        "rule_flags": ([" ".join(r.flags) for r in found], pl.String()),
    }
    answers = distinct.with_columns(pl.Series(name, values, kind) for name, (values, kind) in columns.items())
    return frame.join(answers, on=keys, how="left", nulls_equal=True, maintain_order="left")


def normal(text: str) -> str:
    """A raw name in capitals, brands and punctuation removed: `NVIDIA A100-SXM4-80GB` → `A100 SXM4 80GB`."""
    text = re.sub(r"[_\-(),/]+", " ", text.upper()).replace("®", "").strip()
    text = re.sub(r"\s+", " ", text)
    while (shorter := _BRANDS.sub("", text)) != text:
        text = shorter
    return re.sub(r"(\d) (GI?B)\b", r"\1\2", text)


def _better(name: Resolution | None, sku: Resolution | None) -> Resolution | None:
    """The name's reading, unless the SKU, read as a name, tells apart what the name leaves open."""
    if name is None or (sku is not None and sku.accelerator_id in name.candidates and name.status == "partial"):
        return sku
    return name


def _by_sku(provider: str, text: str | None, memory_hint: float | None) -> Resolution | None:
    if not text:
        return None
    plain = re.sub(r"[_\s]+", " ", text.strip()) if provider == "azure" else text.strip()
    for rule in _sku_rules().get(provider, ()):
        if match := rule.pattern.fullmatch(plain):
            says = _Says(
                match.expand(rule.model),
                rule.form_factor,
                _number(match.expand(rule.memory_gb)),
                1.0 if rule.gpus == "name" else _number(match.expand(rule.gpus)),
                states_count=rule.gpus not in ("", "name"),
            )
            return _settle(rule, says, memory_hint)
    return None


def _by_name(text: str | None, memory_hint: float | None) -> Resolution | None:
    if not text:
        return None
    plain = normal(text)
    count = 1.0
    if prefix := _COUNT.match(plain):
        count = float(prefix.group(1))
        plain = normal(plain[prefix.end() :])
    for rule in _name_rules():
        if match := rule.pattern.fullmatch(plain):
            if rule.model == "-":
                return Resolution("not_a_gpu", rule.name, gpu_count=0.0)
            named = _MEMORY.search(plain)
            memory = _number(rule.memory_gb) or (float(named.group(1)) if named else None)
            form = rule.form_factor or _form(plain)
            model = match.expand(rule.model)
            if slice_of := _MIG.search(plain):
                return _slice(rule, model, float(slice_of.group(1)))
            return _settle(rule, _Says(model, form, memory, count, states_count=prefix is not None), memory_hint)
    return None


def _settle(rule: _Rule, says: _Says, hint: float | None) -> Resolution:
    """Narrow the products of a model by form factor and memory; a contradiction leaves no id."""
    products = _products(says.model)
    is_slice = says.gpu_count is not None and 0 < says.gpu_count < 1
    whole = says.memory_gb / says.gpu_count if is_slice and says.memory_gb and says.gpu_count else says.memory_gb
    left = [p for p in products if says.form_factor in ("", *SLICE_FORMS) or p.form_factor.startswith(says.form_factor)]
    for size in (whole, None if is_slice else hint):
        left = [p for p in left if size is None or _same_size(size, p.memory_gb)]
    forms = {p.form_factor for p in left}
    sizes = {p.memory_gb for p in left}
    form = next(iter(forms)) if len(forms) == 1 and not is_slice else says.form_factor
    size = next(iter(sizes)) if len(sizes) == 1 and not is_slice else None
    contradicted = products and not left
    answer = Resolution(
        status="partial",
        rule=rule.name,
        model=says.model.rstrip("?"),
        form_factor=None if form in ("", "SXM") else form,
        memory_gb=says.memory_gb if is_slice else size or hint or says.memory_gb,
        gpu_count=says.gpu_count,
        states_count=says.states_count,
        candidates=tuple(p.accelerator_id for p in left or products),
        flags=(*rule.flags, "size_or_form_contradicts_name") if contradicted else rule.flags,
    )
    if len(left) == 1:
        return replace(answer, status="resolved", accelerator_id=left[0].accelerator_id, candidates=())
    return answer if products else replace(answer, status="unresolved", candidates=_nearest(says.model).candidates)


def _slice(rule: _Rule, model: str, memory: float) -> Resolution:
    products = _products(model)
    sizes = {p.memory_gb for p in products}
    count = memory / next(iter(sizes)) if len(sizes) == 1 else None
    only = products[0].accelerator_id if len(products) == 1 else None
    left = () if only else tuple(p.accelerator_id for p in products)
    return Resolution(
        "resolved" if only else "partial", rule.name, only, model, "MIG", memory, count, count is not None, left
    )


@lru_cache(maxsize=4096)
def _nearest(text: str) -> Resolution:
    """Unresolved, with the products whose model name looks most like it, closest first."""
    models = sorted({p.model for p in catalogue()})
    close = difflib.get_close_matches(normal(text), models, n=3, cutoff=0.5)
    nearest = tuple(p.accelerator_id for model in close for p in _products(model))
    return Resolution("unresolved", "", candidates=nearest)


def _form(plain: str) -> str:
    for pattern, form in _FORMS:
        if match := pattern.search(plain):
            return form + (match.group(1) if match.groups() else "")
    return ""


def _same_size(size: float, nominal: float) -> bool:
    return abs(size - nominal) <= MEMORY_TOLERANCE * nominal


def _number(text: str) -> float | None:
    return float(Fraction(text)) if text else None


def _products(model: str) -> list[Product]:
    if model.endswith("?"):  # a family whose edition is not stated
        return [p for p in catalogue() if p.model.startswith(model[:-1])]
    return [p for p in catalogue() if p.model == model]


@cache
def catalogue() -> tuple[Product, ...]:
    """Every product the resolver knows, in file order."""
    return tuple(
        Product(r["accelerator_id"], r["model"], r["form_factor"], float(r["memory_gb"]))
        for r in _table("catalogue.csv")
    )


@cache
def _sku_rules() -> dict[str, tuple[_Rule, ...]]:
    rules: dict[str, list[_Rule]] = {}
    for line, r in enumerate(_table("skus.csv"), start=2):
        rule = _Rule(
            f"skus.csv:{line}", re.compile(r["pattern"], re.IGNORECASE), r["model"], r["form_factor"], r["memory_gb"],
            r["gpus"], tuple(r["flags"].split()),
        )  # fmt: skip
        rules.setdefault(r["provider"], []).append(rule)
    return {provider: tuple(found) for provider, found in rules.items()}


@cache
def _name_rules() -> Sequence[_Rule]:
    return [
        _Rule(f"names.csv:{line}", re.compile(r["pattern"]), r["model"], r["form_factor"], r["memory_gb"])
        for line, r in enumerate(_table("names.csv"), start=2)
    ]


def _table(name: str) -> Iterable[dict[str, str]]:
    text = files("sources.prices").joinpath(name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
