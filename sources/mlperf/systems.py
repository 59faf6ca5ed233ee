"""Reads a system file: counts, accelerator and names in one spelling, whatever their types.

Belongs here: what `systems/<system_desc_id>.json` says, and the spellings of submitters and availability.
Does not belong here: which accelerator a name means (`ref.accelerator_aliases`), anything from directory names.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_NOTHING = {"", "n/a", "na", "none", "-", "null"}
_MEMORY = re.compile(r"(?:(\d+)\s*x\s*)?(\d+(?:\.\d+)?)\s*(GiB|GB|G|MiB|MB|TB|TiB)\b", re.IGNORECASE)
_GB: dict[str, float] = {
    "g": 1,
    "gb": 1,
    "mb": 1e-3,
    "tb": 1e3,
    "gib": 1.073741824,
    "mib": 1.048576e-3,
    "tib": 1099.511627776,
}

# mlcommons/logging, result_summarizer/config.yaml; "available" alone means on premises in training rounds.
_AVAILABILITY = {
    "onprem": "onprem",
    "available": "onprem",
    "available onprem": "onprem",
    "cloud": "cloud",
    "available cloud": "cloud",
    "available in cloud": "cloud",
    "preview": "preview",
    "research": "research",
    "development": "research",
    "internal": "research",
    "rdi": "research",
    "research development or internal (rdi)": "research",
}

# Organisations that changed their spelling or name between rounds, as the newest rounds spell them; keys are lower case without separators.
_SUBMITTERS = {
    "azure": "Azure",
    "microsoftazure": "Azure",
    "asustek": "ASUSTeK",
    "gigabyte": "GigaComputing",
    "gigacomputing": "GigaComputing",
    "krai": "Krai",
    "qct": "Quanta_Cloud_Technology",
    "quantacloudtechnology": "Quanta_Cloud_Technology",
    "habana": "Intel-HabanaLabs",
    "intelhabanalabs": "Intel-HabanaLabs",
    "coreweave": "CoreWeave",
    "clemson": "Clemson University Research Computing and Data",
    "clemsonuniversityresearchcomputinganddata": "Clemson University Research Computing and Data",
    "smc": "Sustainable Metal Cloud",
    "smcacpower": "Sustainable Metal Cloud",
    "smcdcpower": "Sustainable Metal Cloud",
    "sustainablemetalcloud": "Sustainable Metal Cloud",
}
_JOINT_DIRECTORIES = {"NVIDIA_CoreWeave": "NVIDIA+CoreWeave"}


class SystemFileError(ValueError):
    """The system file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class SystemFile:
    """What a system file says, typed. `accelerator_count` is 0 for a CPU system; None is not stated."""

    submitter: str
    division: str | None
    availability: str | None
    system: str | None
    framework: str | None
    accelerator: str | None
    node_count: int | None
    accelerators_per_node: int | None
    accelerator_memory_gb: float | None
    host_processor: str | None
    software_notes: str | None

    @property
    def accelerator_count(self) -> int | None:
        """Nodes times accelerators per node; None where either is not stated."""
        if self.node_count is None or self.accelerators_per_node is None:
            return None
        return self.node_count * self.accelerators_per_node


def read_system(body: bytes, organization: str) -> SystemFile:
    """Read a system file. Raises `SystemFileError`. `organization` stands in for a missing submitter."""
    try:
        raw = json.loads(body.decode("utf-8-sig", "replace"))
    except ValueError as error:
        raise SystemFileError(f"the system file is not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise SystemFileError("the system file is not a JSON object")
    division = (_text(raw.get("division")) or "").lower()
    return SystemFile(
        submitter=submitter_of(_text(raw.get("submitter")) or organization),
        division=division if division in ("closed", "open") else None,
        availability=availability_of(_text(raw.get("status"))),
        system=_text(raw.get("system_name")),
        framework=_text(raw.get("framework")),
        accelerator=_text(raw.get("accelerator_model_name")),
        node_count=whole(raw.get("number_of_nodes")) or None,
        accelerators_per_node=whole(raw.get("accelerators_per_node")),
        accelerator_memory_gb=memory_gb(_text(raw.get("accelerator_memory_capacity"))),
        host_processor=_text(raw.get("host_processor_model_name")),
        software_notes=_text(raw.get("sw_notes")),
    )


def whole(value: object) -> int | None:
    """A count given as "8", 8, 8.0 or "8.0"; None for anything that is not a whole number of zero or more."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        count = float(str(value).strip())
    except ValueError:
        return None
    return int(count) if count >= 0 and count.is_integer() else None


def memory_gb(text: str | None) -> float | None:
    """Memory of one accelerator in decimal gigabytes; "2x 24 GB" is 24."""
    found = _MEMORY.search(text or "")
    return float(found[2]) * _GB[found[3].lower()] if found else None


def availability_of(status: str | None) -> str | None:
    """onprem, cloud, preview or research; None for a status nobody defined."""
    words = re.sub(r"[\s,-]+", " ", (status or "").lower()).strip()
    return _AVAILABILITY.get(re.sub(r"\bon ?prem(ises?)?\b", "onprem", words))


def submitter_of(name: str) -> str:
    """One spelling of a submitter; partners of a joint submission in alphabetical order."""
    joint = _JOINT_DIRECTORIES.get(name, name)
    partners = [part.strip() for part in joint.split("+") if part.strip()]
    known = [_SUBMITTERS.get(re.sub(r"[\s_.,-]+", "", part.lower()), part) for part in partners]
    return " + ".join(sorted(dict.fromkeys(known), key=str.lower)) or name


def _text(value: Any) -> str | None:
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True)
    text = str(value).strip() if value is not None else ""
    return None if text.lower() in _NOTHING else text
