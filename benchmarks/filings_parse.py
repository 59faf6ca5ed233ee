"""How many earnings releases are read a second on one core.

A release is read from its HTML to rows: text, tables, checks, guidance. Real releases are taken from a folder; each is
read several times until the wanted number is reached. CPU time counts, so that other work on the machine does not.

    python benchmarks/filings_parse.py FOLDER [--releases 500]
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

from sources.sec.release import SOURCE

TARGET_PER_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--releases", type=int, default=500)
    wanted = parser.parse_args()
    payloads = list(SOURCE.read([wanted.folder], {}))
    SOURCE.parse(payloads[0])
    start = time.process_time()
    rows = 0
    for payload in itertools.islice(itertools.cycle(payloads), wanted.releases):
        rows += sum(frame.height for frame in SOURCE.parse(payload).frames.values())
    seconds = time.process_time() - start
    rate = wanted.releases / seconds
    print(f"{wanted.releases} releases, {rows} rows: {rate:.1f} releases/s of CPU (target {TARGET_PER_S:g})")


if __name__ == "__main__":
    main()
