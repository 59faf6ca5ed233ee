"""Takes nvidia-smi's outputs apart into one text for each item: CSV, XML, and the plain text of `-q`.

Belongs here: the three shapes. Does not belong here: units and types (`nvidia_smi_convert`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import polars as pl
from lxml import etree

from sources.base import ParseError, Reject
from sources.telemetry_inputs.nvidia_smi_convert import fields

REASON_BITS: Mapping[str, int] = {
    "gpu_idle": 0x1,
    "idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
    "display_clock_setting": 0x100,
}


@cache
def spellings(shape: str) -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
    """(item, alternatives, each a tuple of parts to add) for `csv`, `xml` or `text`."""
    return tuple(
        (row["column"], tuple(tuple(choice.split("+")) for choice in row[shape].split("|")))
        for row in fields().iter_rows(named=True)
        if row[shape]
    )


def read_csv(text: str) -> tuple[pl.DataFrame, list[Reject]]:
    """Rows of `--query-gpu=… --format=csv`, with or without units. Raises `ParseError` without its header line."""
    lines = pl.DataFrame({"raw": text.split("\n")}).with_row_index("line", offset=1)
    lines = lines.with_columns(pl.col("raw").str.strip_chars()).filter(pl.col("raw") != "")
    header = [name.partition("[")[0].strip() for name in lines["raw"][0].split(",")]
    known = {part for _, choices in spellings("csv") for choice in choices for part in choice}
    if not known & set(header):
        raise ParseError(
            "this is none of nvidia-smi's outputs, or a CSV without its header line: save it without noheader"
        )
    body = lines.slice(1).filter(pl.col("raw") != lines["raw"][0])
    cells = body.with_columns(pl.col("raw").str.split(",").alias("cells"))
    fits = pl.col("cells").list.len() == len(header)
    rejects = [
        Reject(
            "telemetry.gpu_samples", "as many cells as the header", "the line is cut or broken", raw[:500], f"line {n}"
        )
        for n, raw in cells.filter(~fits).select("line", "raw").iter_rows()
    ]
    cells = cells.filter(fits)
    named = cells.select(
        pl.col("cells").list.get(i).str.strip_chars().alias(name)
        for i, name in enumerate(header)
        if name not in header[:i]
    )
    wanted: list[pl.Expr] = []
    for item, choices in spellings("csv"):
        found = [choice for choice in choices if all(part in named.columns for part in choice)]
        if found:
            wanted.append(_sum([pl.col(part) for part in found[0]]).alias(item))
    return named.select(wanted), rejects


def _sum(parts: list[pl.Expr]) -> pl.Expr:
    if len(parts) == 1:
        return parts[0]
    numbers = [part.cast(pl.Int64, strict=False) for part in parts]
    total = numbers[0]
    for number in numbers[1:]:
        total = total + number
    return pl.coalesce(total.cast(pl.String), parts[0])


def read_xml(body: bytes) -> pl.DataFrame:
    """One row for each GPU and MIG instance of `-q -x`. Raises `ParseError` if it is broken or something else."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        raise ParseError(f"the XML is cut or broken ({error.msg}); take the capture again") from None
    if root.tag != "nvidia_smi_log":
        raise ParseError(f"the XML is a {root.tag}, not an nvidia_smi_log: save nvidia-smi -q -x")
    whole = {f"@{child.tag}": _text(child) for child in root if not len(child)}
    records: list[dict[str, str | None]] = []
    for gpu in root.findall("gpu"):
        record = _items("xml", lambda path, gpu=gpu: whole.get(path) if path[0] == "@" else _text(gpu.find(path)))  # type: ignore[misc]
        record["event_reasons"] = _mask(_reason_flags(gpu))
        records.append(record)
        records += [_instance(mig, record) for mig in gpu.findall("mig_devices/mig_device")]
    return _frame(records, "the XML")


def _reason_flags(gpu: Any) -> Iterator[tuple[str, str]]:
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        for flag in gpu.findall(f"{group}/*"):
            yield re.sub(r"^clocks_(event|throttle)_reason_", "", flag.tag), _text(flag) or ""


def _instance(mig: Any, board: Mapping[str, str | None]) -> dict[str, str | None]:
    """A MIG instance: its own memory; board-scope items stay with the board."""
    ids = [_text(mig.find(name)) or "" for name in ("gpu_instance_id", "compute_instance_id")]
    memory = {
        f"memory_{item}_bytes": _text(mig.find(f"fb_memory_usage/{item}")) for item in ("total", "used", "reserved")
    }
    shared = ("@time", "@gpu_name", "@driver", "@cuda")
    return {
        "@uuid": _text(mig.find("uuid")) or f"MIG-{board['@uuid']}/{'/'.join(ids)}",
        "parent": board["@uuid"],
        **memory,
        **{name: board.get(name) for name in shared},
    }


def read_text(text: str) -> pl.DataFrame:
    """One row for each GPU of plain `-q`. Raises `ParseError` if there is none."""
    whole: dict[str, str] = {}
    gpus: list[dict[str, str]] = []
    stack: list[tuple[int, str]] = []
    for line in text.split("\n"):
        body = line.strip()
        if re.match(r"^GPU [0-9A-Fa-f]{4,}:", line):
            gpus.append({})
            stack = []
        elif body and not body.startswith("="):
            indent = len(line) - len(line.lstrip())
            stack = [entry for entry in stack if entry[0] < indent]
            name, colon, value = (part.strip() for part in body.partition(" : "))
            stack.append((indent, name))
            if colon:
                place = gpus[-1] if gpus else whole
                place["/".join(part for _, part in stack)] = value
    records = []
    for gpu in gpus:
        record = _items("text", lambda path, gpu=gpu: whole.get(path[1:]) if path[0] == "@" else gpu.get(path))  # type: ignore[misc]
        flags = (
            (path.rpartition("/")[2].lower().replace(" ", "_"), value)
            for path, value in gpu.items()
            if path.startswith(("Clocks Event Reasons/", "Clocks Throttle Reasons/"))
        )
        record["event_reasons"] = _mask(flags)
        records.append(record)
    return _frame(records, "the text")


def _items(shape: str, find: Callable[[str], str | None]) -> dict[str, str | None]:
    record: dict[str, str | None] = {}
    for item, choices in spellings(shape):
        for choice in choices:
            parts = [find(part) for part in choice]
            if all(part is not None for part in parts):
                record[item] = _added([part for part in parts if part is not None])
                break
    return record


def _added(parts: list[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return str(sum(int(p) for p in parts)) if all(p.isdigit() for p in parts) else parts[0]


def _mask(flags: Iterator[tuple[str, str]]) -> str | None:
    """The bits of the reasons that are active; None if any reason is not told or none is listed."""
    mask, seen = 0, False
    for name, state in flags:
        if name not in REASON_BITS:
            continue
        if state not in ("Active", "Not Active"):
            return None
        seen = True
        mask |= REASON_BITS[name] if state == "Active" else 0
    return f"0x{mask:016X}" if seen else None


def _text(node: Any) -> str | None:
    return node.text.strip() if node is not None and node.text and not len(node) else None


def _frame(records: list[dict[str, str | None]], what: str) -> pl.DataFrame:
    if not records:
        raise ParseError(f"{what} lists no GPU; was the driver loaded?")
    names = dict.fromkeys(name for record in records for name in record)
    return pl.DataFrame(records, schema=dict.fromkeys(names, pl.String), orient="row")
