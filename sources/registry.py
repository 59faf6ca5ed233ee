"""The registry: every source the house knows, found by walking this package.

Belongs here: finding `SOURCE` and `SOURCES` in modules. Does not belong here: any list to keep by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

import sources
from sources.base import AlmanacError, Source


@cache
def all_sources() -> dict[str, Source]:
    """Every source by name, in name order."""
    found: dict[str, Source] = {}
    for module in _modules():
        loaded = importlib.import_module(module)
        declared = getattr(loaded, "SOURCES", None) or ((loaded.SOURCE,) if hasattr(loaded, "SOURCE") else ())
        for source in declared:
            if found.get(source.name, source) is not source:
                raise AlmanacError(f"two sources are called {source.name}: rename one ({module})")
            found[source.name] = source
    return dict(sorted(found.items()))


def source_named(name: str) -> Source:
    """The source called `name`. Raises `AlmanacError` that lists the nearest names."""
    known = all_sources()
    if name in known:
        return known[name]
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(near)}?" if near else "see `almanac sources`"
    raise AlmanacError(f"no source is called {name!r}; {hint}")


def _modules() -> Iterator[str]:
    for info in pkgutil.walk_packages(sources.__path__, "sources."):
        # The agent's modules hold no public source and must not be dragged in.
        if not info.name.startswith(("sources.telemetry.", "sources.registry")):
            yield info.name
