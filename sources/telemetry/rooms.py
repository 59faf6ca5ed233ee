"""Memory that columns of samples are laid out in, used again once nothing looks at it.

Belongs here: lending and taking back. Does not belong here: what lies in it (`segment_rows.py`). Memory fresh from the
system is cleared page by page before it is given, which costs as much as laying out the columns.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_ALIGNED: Final = 64  # bytes at which a column begins
_SPARE: Final = 2  # groups differ in size, and what nobody writes to takes no memory


class Rooms:
    """Rooms for the frames of one batch; they are freed with it. Threads may share one."""

    def __init__(self) -> None:
        self._free: list[Array] = []

    def columns(self, row_type: np.dtype[Any], total: int) -> dict[str, Array]:
        """An array of `total` values for each field of `row_type`, by name; what is in them is left over from before."""
        fields = {name: kind for name, (kind, *_) in (row_type.fields or {}).items()}
        starts, size = _starts(fields, total)
        room = self._lend(size)
        return {name: room[starts[name] :][: total * kind.itemsize].view(kind) for name, kind in fields.items()}

    def _lend(self, size: int) -> Array:
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        if memory.size < size:
            memory = np.empty(size * _SPARE, np.uint8)
        lease = _Lease(memory)
        weakref.finalize(lease, self._free.append, memory).atexit = False
        return np.asarray(lease)[:size]


class _Lease:
    """What every view of a room refers to in the end: it is gone when the last view is."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, memory: Array) -> None:
        self.__array_interface__ = memory.__array_interface__


def _starts(fields: Mapping[str, np.dtype[Any]], total: int) -> tuple[dict[str, int], int]:
    """Where each column begins, and the size of all."""
    starts: dict[str, int] = {}
    at = 0
    for name, kind in fields.items():
        starts[name] = at
        at += -(-total * kind.itemsize // _ALIGNED) * _ALIGNED
    return starts, at
