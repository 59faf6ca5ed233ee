"""Which app transactions a Delta table has seen, asked for many at once.

Belongs here: reading the ids from the log. Does not belong here: what they stand for (`watermarks.py`), committing.
delta-rs answers for one id at a time by reading the log again: 4 ms an id where ten thousand are known, hours for a
fleet's segments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from warehouse.watermarks import RUN

CHECKPOINT = ".checkpoint.parquet"
TRIFLE_BYTES = 4 << 20  # a tenth of a second to read
_MARK = b'{"txn"'
_TOLD = {"id": pl.String(), "number": pl.Int64()}


def committed(table: Path, version: int, wanted: Iterable[str]) -> dict[str, int]:
    """The number last committed for each wanted id that was committed up to `version` of the table in that folder.

    One that begins with `run:` and ends in `@` stands for all ids that go on from there with a number. Ids past the
    table's retention may still be among them. Raises `OSError` where the log is not whole.
    """
    ids = set(wanted)
    if not ids:
        return {}
    log = table / "_delta_log"
    start, parts = _checkpoint(log, version)
    asked = pl.Series(sorted(ids), dtype=pl.String).implode()
    run = pl.when(pl.col("id").str.starts_with(RUN)).then(pl.col("id").str.replace(r"@[0-9]+$", "@"))
    is_wanted = pl.col("id").is_in(asked) | run.is_in(asked)
    found: dict[str, int] = {}
    for told in (_checkpointed(parts), _since(log, start, version)):
        found |= told.filter(is_wanted).collect().iter_rows()
    return found


def is_overgrown(table: Path, version: int) -> bool:
    """Whether what every reader reads since the newest checkpoint outweighs that checkpoint, and is no trifle.

    Delta makes one every hundred commits, whatever is in them; a fleet's commits tell thousands of ids each.
    """
    log = table / "_delta_log"
    start, parts = _checkpoint(log, version)
    tail = sum((log / f"{number:020d}.json").stat().st_size for number in range(start + 1, version + 1))
    return tail > max(TRIFLE_BYTES, sum(part.stat().st_size for part in parts))


def _checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    """The newest checkpoint that is not newer than `version`: its version and files; -1 where there is none."""
    try:
        last = json.loads((log / "_last_checkpoint").read_bytes())
    except (FileNotFoundError, ValueError):
        last = None
    if last and last["version"] <= version:
        files = sorted(log.glob(f"{last['version']:020d}*{CHECKPOINT}"))
        if len(files) == (last.get("parts") or 1):
            return int(last["version"]), files
    known: dict[int, list[Path]] = {}
    for path in log.glob(f"*{CHECKPOINT}"):
        known.setdefault(int(path.name[:20]), []).append(path)
    usable = [number for number, files in known.items() if number <= version and _is_whole(files)]
    newest = max(usable, default=-1)
    return newest, known.get(newest, [])


def _is_whole(files: list[Path]) -> bool:
    """A checkpoint in one file, or in as many as each of its names says."""
    return len(files) == max(int(f.name.split(".")[3]) if f.name.count(".") > 2 else 1 for f in files)  # noqa: PLR2004


def _checkpointed(parts: list[Path]) -> pl.LazyFrame:
    """Ids and numbers of a checkpoint."""
    if parts and "txn" in (scan := pl.scan_parquet(parts, hive_partitioning=False)).collect_schema():
        return scan.select(_told()).drop_nulls("id")
    return pl.LazyFrame(schema=_TOLD)


def _since(log: Path, start: int, version: int) -> pl.LazyFrame:
    """Ids and numbers of the commits after `start`, oldest first. A fleet's commit tells thousands."""
    bodies = ((log / f"{number:020d}.json").read_bytes() for number in range(start + 1, version + 1))
    lines = [line for body in bodies for line in body.splitlines() if line.startswith(_MARK)]
    if not lines:
        return pl.LazyFrame(schema=_TOLD)
    return (
        pl.read_ndjson(b"\n".join(lines), schema={"txn": pl.Struct({"appId": pl.String, "version": pl.Int64})})
        .lazy()
        .select(_told())
    )


def _told() -> list[pl.Expr]:
    told = pl.col("txn").struct
    return [told.field("appId").alias("id"), told.field("version").cast(pl.Int64).alias("number")]
