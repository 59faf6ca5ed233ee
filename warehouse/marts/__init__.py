"""The marts: one SQL file each, and the reader of their headers.

Belongs here: select statements with a header (grain, key, a line for each column). Does not belong here: Python
that computes figures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from graphlib import TopologicalSorter
from importlib.resources import files

_TABLE = re.compile(r"\b(ref|telemetry|market|mart|ops)\.(\w+)")


@dataclass(frozen=True, slots=True)
class Mart:
    """One mart as declared by its file."""

    name: str
    meaning: str
    grain: str
    key: tuple[str, ...]
    depends: tuple[str, ...]
    columns: dict[str, str]
    sql: str

    @property
    def reads(self) -> frozenset[str]:
        """Published tables and marts that the select names."""
        code = "\n".join(line.split("--", 1)[0] for line in self.sql.splitlines())
        return frozenset(f"{schema}.{name}" for schema, name in _TABLE.findall(code))


def marts() -> list[Mart]:
    """Every mart, each after those it depends on."""
    found = {}
    for entry in files(__name__).iterdir():
        if entry.name.endswith(".sql"):
            mart = parse_mart(entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
            found[mart.name] = mart
    order = TopologicalSorter({m.name: [d for d in m.depends if d in found] for m in found.values()})
    return [found[name] for name in sorted_stable(order)]


def sorted_stable(order: TopologicalSorter[str]) -> list[str]:
    """Topological order with names sorted within a level, so that a build is the same every time."""
    order.prepare()
    out: list[str] = []
    while order.is_active():
        ready = sorted(order.get_ready())
        out.extend(ready)
        order.done(*ready)
    return out


def parse_mart(name: str, text: str) -> Mart:
    """Read the header. Raises `ValueError` naming the line that is missing."""
    head = [line[2:].strip() for line in text.splitlines() if line.startswith("--")]
    fields: dict[str, str] = {}
    columns: dict[str, str] = {}
    for line in head:
        if match := re.match(r"column (\w+): (.+)", line):
            columns[match[1]] = match[2]
        elif match := re.match(r"(mart\.\w+|grain|key|depends): (.+)", line):
            fields[match[1]] = match[2]
    for needed in (f"mart.{name}", "grain", "key"):
        if needed not in fields:
            raise ValueError(f"{name}.sql: the header has no line `-- {needed}: …`")
    return Mart(
        name,
        fields[f"mart.{name}"],
        fields["grain"],
        tuple(k.strip() for k in fields["key"].split(",")),
        tuple(d.strip().removeprefix("mart.") for d in fields.get("depends", "").split(",") if d.strip()),
        columns,
        text,
    )
