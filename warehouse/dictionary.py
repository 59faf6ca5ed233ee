"""The data dictionary, generated from the declarations and the marts' headers.

Belongs here: rendering `docs/dictionary.md`. Does not belong here: any meaning: it stands with the declaration.
Run as `python -m warehouse.dictionary --write|--check FILE`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from sqlmodel import SQLModel

from warehouse.ddl import duckdb_type, published_columns
from warehouse.marts import Mart, marts
from warehouse.schema import tables
from warehouse.schema.declare import bounds_of, key_of, qualified_name, table_of

HEAD = """# Data dictionary

Generated from the declarations in `warehouse/schema` and the headers of `warehouse/marts/*.sql` by
`make dictionary`; CI fails when it is out of date. Bounds are what a row may hold at all: a row outside them is
quarantined. A column marked † is computed at publish. Null means not known.
"""


def render() -> str:
    """The whole dictionary as Markdown."""
    parts = [HEAD]
    schema = ""
    for name, model in tables().items():
        if table_of(model).info["kind"] == "derived":
            continue
        if name.split(".")[0] != schema:
            schema = name.split(".")[0]
            parts.append(f"\n## Schema `{schema}`\n")
        parts.append("\n".join(_table(model)))
    parts.append("\n## Schema `mart`\n")
    parts.extend("\n".join(_mart(mart)) for mart in sorted(marts(), key=lambda m: m.name))
    return "\n".join(parts) + "\n"


def _table(model: type[SQLModel]) -> Iterator[str]:
    table = table_of(model)
    yield f"### `{qualified_name(model)}`\n"
    yield f"{table.comment}\n"
    yield "| column | type | key | unit | bounds | meaning |"
    yield "|---|---|---|---|---|---|"
    key = key_of(model)
    for name in published_columns(model):
        info = table.columns[name].info
        cells = (
            f"`{name}`" + (" †" if info["at_publish"] else ""),
            duckdb_type(model, name),
            "yes" if name in key else "",
            info["unit"] or "",
            _bounds(model, name),
            info["meaning"],
        )
        yield "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"
    yield ""


def _bounds(model: type[SQLModel], column: str) -> str:
    words = table_of(model).columns[column].info["one_of"]
    if words:
        return ", ".join(words)
    low, high = bounds_of(model, column)
    if low is None and high is None:
        return ""
    return f"{'' if low is None else f'{low:g}'} … {'' if high is None else f'{high:g}'}".strip()


def _mart(mart: Mart) -> Iterator[str]:
    yield f"### `mart.{mart.name}`\n"
    yield f"{mart.meaning} Grain: {mart.grain}. Key: {', '.join(mart.key)}.\n"
    yield "| column | meaning |"
    yield "|---|---|"
    for column, meaning in mart.columns.items():
        yield f"| `{column}` | {meaning.replace('|', chr(92) + '|')} |"
    yield ""


def main(arguments: list[str]) -> int:
    """Write the file, or compare it; 1 when it is out of date, 2 for a wrong call."""
    match arguments:
        case ["--write", path]:
            Path(path).write_text(render(), encoding="utf-8")
            return 0
        case ["--check", path]:
            if Path(path).exists() and Path(path).read_text(encoding="utf-8") == render():
                return 0
            sys.stderr.write(f"{path} is out of date: run `make dictionary` and commit it\n")
            return 1
        case _:
            sys.stderr.write("usage: python -m warehouse.dictionary --write|--check FILE\n")
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
