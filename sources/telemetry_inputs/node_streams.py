"""The spool stream of each node that a receiver writes for: its segments are numbered on, step after step.

Belongs here: keeping writers. Does not belong here: what they write (`receiver.py`), the bytes (`sources.telemetry`).

The lake knows what has landed of a stream by its numbers. A stream of its own for every step of every node would be
one mark each in the log of the samples: millions in a week where a hundred nodes are settled every 15 seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import Column, Slot

MOST_WRITERS: Final = 4096  # about 26 KB each; a node beyond them begins a new stream, which costs a mark
_Key = tuple[str, str, tuple[Column, ...]]


class NodeStreams:
    """Writers by node and columns, those used last. Not for several threads at once."""

    def __init__(self, inbox: Path, *, source: str, notify: Callable[[str], None]) -> None:
        self._inbox, self._source, self._notify = inbox, source, notify
        self._writers: dict[_Key, SpoolWriter] = {}

    @contextmanager
    def writing(
        self, cluster: str, node: str, columns: Sequence[Column], slots: Sequence[Slot]
    ) -> Iterator[SpoolWriter]:
        """A node's writer, for as long as nothing is refused: after an error the node begins a new stream."""
        key = (cluster, node, tuple(columns))
        writer = self._writers.pop(key, None) or SpoolWriter(
            self._inbox,
            cluster=cluster,
            node=node,
            source=self._source,
            is_synthetic=False,
            columns=columns,
            segment_seconds=1e9,
            notify=self._notify,
        )
        is_whole = False
        try:
            for slot in slots:
                writer.slot(**slot._asdict())
            yield writer
            is_whole = writer.seal()
        finally:
            if is_whole:
                self._keep(key, writer)
            else:
                writer.close()
        if not is_whole:
            raise OSError(28, "the disk refused to seal a segment", str(self._inbox))

    def _keep(self, key: _Key, writer: SpoolWriter) -> None:
        self._writers[key] = writer
        if len(self._writers) > MOST_WRITERS:
            del self._writers[next(iter(self._writers))]  # sealed: it holds no file
