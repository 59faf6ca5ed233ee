"""`python -m benchmarks`: every benchmark of the house, and the table of results.

Belongs here: finding and running them, each in a process of its own, and writing RESULTS.md. Does not belong here:
any measurement. A module that takes arguments states in RUNS which; the others run as they are.

    python -m benchmarks [--only NAME …] [--write benchmarks/RESULTS.md]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNS = {"telemetry_peers": [["--rows", "200000"], ["--rows", "2457600", "--gpus", "512", "4096", "--no-links"]]}
MOST_SECONDS = 1800
SHOWN = {
    "gpus": "GPUs",
    "rows": "rows",
    "system": "system",
    "values_m": "values [M]",
    "ingest_m_s": "ingest [M values/s]",
    "rows_m_s": "ingest [M rows/s]",
    "cpu_s": "CPU [s]",
    "values_cpu": "M values per CPU s",
    "bytes_per_value": "bytes/value",
    "peak_mb": "peak [MB]",
    "rollup_ms": "roll-up [ms]",
    "one_gpu_ms": "one GPU [ms]",
    "top_links_ms": "top links [ms]",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_"))
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--write", type=Path, help="write the results here, as Markdown")
    given = parser.parse_args()
    sections, failed = [_head()], False
    for name in given.only:
        for arguments in RUNS.get(name, [[]]):
            print(f"== {name} {' '.join(arguments)}".rstrip(), flush=True)
            done = subprocess.run(
                [sys.executable, "-m", f"benchmarks.{name}", *arguments],
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
                check=False,
            )
            print(done.stdout, done.stderr, sep="", flush=True)
            failed |= done.returncode != 0
            sections.append(_section(name, arguments, done.stdout, done.returncode))
    if given.write:
        given.write.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _head() -> str:
    load = os.getloadavg()[0]
    return (
        "# Results\n\n"
        f"Measured {dt.datetime.now(dt.UTC):%Y-%m-%d} on {os.cpu_count()} cores ({platform.machine()}), Python "
        f"{platform.python_version()}, load {load:.1f} when it began. Ratios count, not seconds: where other work "
        "runs on the same cores, every system is slowed alike. Run again with "
        "`python -m benchmarks --write benchmarks/RESULTS.md`."
    )


def _section(name: str, arguments: list[str], text: str, code: int) -> str:
    title = f"## {name} {' '.join(arguments)}".rstrip()
    rows = [json.loads(line) for line in text.splitlines() if line.startswith('{"gpus"')]
    if rows:
        return f"{title}\n\n{_table(rows)}"
    state = "" if code == 0 else f" (exit {code})"
    return f"{title}{state}\n\n```\n{text.strip()}\n```"


def _table(rows: list[dict[str, Any]]) -> str:
    """One line a system and size, then how the systems compare."""
    shown = [{**row, **_derived(row)} for row in rows]
    head = [text for key, text in SHOWN.items() if any(key in row for row in shown)]
    keys = [key for key in SHOWN if any(key in row for row in shown)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(row.get(key)) for key in keys) + " |" for row in shown]
    ratios = [text for gpus in dict.fromkeys(r["gpus"] for r in rows) for text in _ratios(gpus, shown)]
    skipped = [f"{row['system']}: {row['skipped']}" for row in rows if "skipped" in row]
    return "\n".join([*lines, "", *ratios, *skipped])


def _derived(row: dict[str, Any]) -> dict[str, Any]:
    if "skipped" in row:
        return {}
    told = {
        "values_m": row["values"] / 1e6,
        "ingest_m_s": row["values"] / row["ingest_s"] / 1e6,
        "rows_m_s": row["rows"] / row["ingest_s"] / 1e6,
        "values_cpu": row["values"] / row["cpu_s"] / 1e6,
    }
    return told | {f"{q}_ms": row[f"{q}_s"] * 1000 for q in ("rollup", "one_gpu", "top_links")}


def _ratios(gpus: int, rows: list[dict[str, Any]]) -> list[str]:
    here = {row["system"]: row for row in rows if row["gpus"] == gpus and "skipped" not in row}
    mine = here.get("almanac")
    return [
        f"- {gpus} GPUs against {name}: ingest {mine['ingest_m_s'] / peer['ingest_m_s']:.1f}x, per CPU second "
        f"{mine['values_cpu'] / peer['values_cpu']:.1f}x, bytes a value {mine['bytes_per_value'] / peer['bytes_per_value']:.2f}x"
        for name, peer in here.items()
        if mine and name != "almanac"
    ]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
