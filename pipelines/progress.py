"""Progress on a terminal, silence in a pipe. Nothing else belongs here."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def told(what: str) -> Iterator[None]:
    """Say what is going on and how long it took, if a person is watching."""
    watching = sys.stderr.isatty()
    start = time.monotonic()
    if watching:
        sys.stderr.write(f"{what} …")
        sys.stderr.flush()
    try:
        yield
    finally:
        if watching:
            sys.stderr.write(f"\r{what}: {time.monotonic() - start:.1f} s\033[K\n")
