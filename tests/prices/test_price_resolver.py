"""The resolver: every known alias, and the refusal to guess."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.prices.resolver import catalogue, normal, resolve, resolve_frame

CURATED = Path(__file__).parents[2] / "sources" / "curated" / "ref.accelerators.csv"
# The alias table writes form factor and variant into the model; the resolver keeps them apart.
MODEL_OF = {"H100-NVL": "H100", "H200-NVL": "H200", "H100-MEGA": "H100", "A100-slice": "A100"}


def _aliases(shared: Path) -> list[dict[str, str]]:
    with (shared / "facts" / "gpu_aliases.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_alias_of_the_fact_table_is_understood(shared: Path) -> None:
    wrong = []
    for row in _aliases(shared):
        found = resolve(row["raw_name"], provider=row["source"])
        model = re.sub(r"-MIG.*", "", MODEL_OF.get(row["canonical"], row["canonical"])).upper()
        sizes = [float(m) for m in row["memory_gb"].split("|") if m and float(m)]
        possible = [p for p in catalogue() if p.accelerator_id in (found.accelerator_id, *found.candidates)]
        ok = {
            "model": model == re.sub(r"-\d+GB$", "", found.model or ""),
            "form": (row["form_factor"] or None) == found.form_factor,
            "count": (float(row["gpus"]) if row["gpus"] else None) == pytest.approx(found.gpu_count, abs=1e-4),
            "memory": len(sizes) == 0
            or (found.memory_gb is not None and abs(found.memory_gb - sizes[0]) <= 0.08 * sizes[0])
            or all(any(p.memory_gb == size for p in possible) for size in sizes),
        }
        wrong += [(row["raw_name"], what, found) for what, right in ok.items() if not right]
    assert wrong == []


def test_an_id_is_given_for_every_alias_with_form_factor_and_one_memory_size(shared: Path) -> None:
    undecided = {
        row["raw_name"]: resolve(row["raw_name"], provider=row["source"]).status
        for row in _aliases(shared)
        if row["form_factor"] and "|" not in row["memory_gb"]
        and resolve(row["raw_name"], provider=row["source"]).accelerator_id is None
    }  # fmt: skip
    # A vGPU slice of a board whose form factor nobody states.
    assert undecided == {"vcg-a100-1c-6g-4vram": "partial"}


def test_aliases_without_form_factor_keep_their_candidates(shared: Path) -> None:
    for row in _aliases(shared):
        found = resolve(row["raw_name"], provider=row["source"])
        if not row["form_factor"]:
            assert found.accelerator_id is None, row
        if "|" in row["memory_gb"]:
            assert len(found.candidates) > 1, row


def test_catalogue_agrees_with_the_curated_reference() -> None:
    with CURATED.open(encoding="utf-8") as file:
        curated = {r["accelerator_id"]: r["memory_gb"] for r in csv.DictReader(file)}
    path = CURATED.parents[1] / "prices" / "catalogue.csv"
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert (row["accelerator_id"] in curated) == (row["in_reference"] == "yes"), row
            if row["in_reference"] == "yes":
                assert float(curated[row["accelerator_id"]]) == float(row["memory_gb"]), row


@pytest.mark.parametrize(
    ("provider", "sku", "expected", "count"),
    [
        ("azure", "Standard_NC40ads_H100_v5", "nvidia-h100-nvl-94gb", 1),
        ("azure", "Standard_NC24ads_A100_v4", "nvidia-a100-pcie-80gb", 1),
        ("azure", "NC24ads A100 v4", "nvidia-a100-pcie-80gb", 1),
        ("aws", "p6e-gb200.36xlarge", "nvidia-gb200-186gb", 4),
        ("aws", "p6-b200.48xlarge", "nvidia-b200-sxm6-180gb", 8),
        ("oracle", "B110979", "nvidia-gb200-186gb", 1),
        ("gcp", "a2-ultragpu-4g", "nvidia-a100-sxm4-80gb", 4),
        ("aws", "g6f.large", "nvidia-l4-24gb", 0.125),
        ("azure", "Standard_NV6ads_A10_v5", "nvidia-a10-24gb", 1 / 6),
        ("verda", "8B200.240V", "nvidia-b200-sxm6-180gb", 8),
    ],
)
def test_sku(provider: str, sku: str, expected: str, count: float) -> None:
    found = resolve(sku, provider=provider)
    assert found.accelerator_id == expected
    assert found.gpu_count == pytest.approx(count)


@pytest.mark.parametrize(
    ("name", "hint", "expected"),
    [
        ("A100 SXM4", 40960 / 1024, "nvidia-a100-sxm4-40gb"),
        ("A100 SXM4", 81920 / 1024, "nvidia-a100-sxm4-80gb"),
        ("A100 PCIE", 81920 / 1024, "nvidia-a100-pcie-80gb"),
        ("A100 SXM4", None, None),
        ("A100", 80, None),  # SXM or PCIe
        ("H100", 80, None),  # SXM or PCIe
        ("H100", 94, "nvidia-h100-nvl-94gb"),  # only the NVL board has 94 GB
        ("H100 80GB", None, None),
        ("H200", 141, None),  # without its provider's convention: SXM or NVL
        ("RTX 4090", 24564 / 1024, "nvidia-rtx-4090-24gb"),
        ("RTX 4090", 49140 / 1024, None),  # a modified card: another product
        ("Tesla V100", 32, None),
        ("NVIDIA H100 80GB HBM3", None, "nvidia-h100-sxm5-80gb"),
        ("RTX PRO 6000", 96, None),  # server, workstation or Max-Q
        ("A100 SXM4 80GB", 40, None),  # memory contradicts the name
        ("L40S", 46068 / 1024, "nvidia-l40s-48gb"),
        ("L40", 46068 / 1024, "nvidia-l40-48gb"),
        ("A10G (24 GB)", None, "nvidia-a10g-24gb"),
        ("A10 (24 GB)", None, "nvidia-a10-24gb"),
        ("GH200", None, None),  # 96 or 144 GB
        ("GB300 NVL72", None, "nvidia-gb300-279gb"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, "nvidia-rtx-pro-6000-blackwell-server-96gb"),
        ("8x H100 SXM5", None, "nvidia-h100-sxm5-80gb"),
    ],
)
def test_name(name: str, hint: float | None, expected: str | None) -> None:
    assert resolve(name, memory_gb=hint).accelerator_id == expected


def test_look_alikes_never_match() -> None:
    assert resolve("H100T").accelerator_id is None
    assert "nvidia-h100-sxm5-80gb" in resolve("H100T").candidates
    assert resolve("GB200").accelerator_id == "nvidia-gb200-186gb"
    assert resolve("B200").accelerator_id == "nvidia-b200-sxm6-180gb"
    assert resolve("GB300").accelerator_id != resolve("B300").accelerator_id
    assert resolve("A100X").accelerator_id == "nvidia-a100x-80gb"


def test_a_modified_card_keeps_the_nearest_product_as_candidate() -> None:
    found = resolve("RTX 4090", provider="vast", memory_gb=49140 / 1024)
    assert (found.status, found.candidates) == ("partial", ("nvidia-rtx-4090-24gb",))
    assert found.memory_gb == pytest.approx(48, abs=0.1)
    assert "size_or_form_contradicts_name" in found.flags


def test_a_name_that_contradicts_its_sku_is_flagged_and_loses() -> None:
    found = resolve("Standard_NC40ads_H100_v5", "H100 SXM", provider="azure")
    assert found.accelerator_id == "nvidia-h100-nvl-94gb"
    assert "name_contradicts_sku" in found.flags


def test_a_bare_name_states_no_count() -> None:
    assert not resolve("H100 SXM5").states_count
    assert resolve("8x H100 SXM5").states_count
    assert resolve("p5.48xlarge", provider="aws").states_count
    assert resolve("NDasrA100v4_Type1", provider="azure").gpu_count is None


def test_an_unknown_name_is_unresolved_with_neighbours() -> None:
    found = resolve("H300 SXM7")
    assert (found.status, found.accelerator_id) == ("unresolved", None)
    assert resolve("p9.48xlarge", provider="aws").status == "unresolved"
    assert resolve("unknown", provider="runpod").status == "not_a_gpu"


_FORMS = st.sampled_from(["", "SXM", "SXM4", "SXM5", "PCIe", "NVL", "HGX"])
_SIZES = st.sampled_from([None, 24, 40, 48, 80, 94, 96, 141, 180, 186])


@given(model=st.sampled_from(sorted({p.model for p in catalogue()})), form=_FORMS, size=_SIZES)
def test_an_id_never_contradicts_form_factor_or_memory(model: str, form: str, size: float | None) -> None:
    found = resolve(f"{model} {form}".strip(), memory_gb=size)
    if found.accelerator_id:
        product = next(p for p in catalogue() if p.accelerator_id == found.accelerator_id)
        assert not form or form == "HGX" or product.form_factor.startswith(form)
        assert form != "HGX" or product.form_factor.startswith("SXM")
        assert size is None or abs(product.memory_gb - size) <= 0.08 * product.memory_gb
        others = [p for p in catalogue() if p.model == product.model and p.accelerator_id != found.accelerator_id]
        assert not any(
            (not form or p.form_factor.startswith(form.replace("HGX", "SXM")))
            and (size is None or abs(p.memory_gb - size) <= 0.08 * p.memory_gb)
            for p in others
        )
    else:
        assert found.status in ("partial", "unresolved")


@given(text=st.text(max_size=40))
def test_any_text_resolves_without_error(text: str) -> None:
    found = resolve(text, provider="aws")
    assert found.status in ("resolved", "partial", "unresolved", "not_a_gpu")
    assert (found.accelerator_id is not None) == (found.status == "resolved")


@given(st.sampled_from([p.accelerator_id for p in catalogue()]))
def test_spelling_does_not_matter(accelerator_id: str) -> None:
    product = next(p for p in catalogue() if p.accelerator_id == accelerator_id)
    spellings = {
        f"nvidia {product.model} {product.form_factor} {product.memory_gb:.0f} GB",
    }
    text = spellings.pop()
    assert resolve(text) == resolve(text.lower()) == resolve(text.replace(" ", "_"))


def test_normal_form() -> None:
    assert normal("NVIDIA A100-SXM4-80GB") == "A100 SXM4 80GB"
    assert normal("NVIDIA GeForce RTX 4090") == "RTX 4090"
    assert normal("H100 (80 GB)") == "H100 80GB"


def test_frame_resolves_each_combination_once_and_keeps_order() -> None:
    frame = pl.DataFrame(
        {
            "provider": ["aws", "vast", "aws"],
            "sku": ["p5.48xlarge", "A100 SXM4", "p5.48xlarge"],
            "gpu_name": [None, "A100 SXM4", None],
            "memory_hint_gb": [None, 80.0, None],
        }
    )
    found = resolve_frame(frame)
    assert found["accelerator_id"].to_list() == [
        "nvidia-h100-sxm5-80gb",
        "nvidia-a100-sxm4-80gb",
        "nvidia-h100-sxm5-80gb",
    ]
    assert found["rule_gpu_count"].to_list() == [8.0, None, 8.0]
