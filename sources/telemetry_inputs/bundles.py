"""Several files as one payload: a tar with fixed dates and owners, so that equal files give equal bytes.

Belongs here: packing and unpacking. Does not belong here: which files belong together.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

from sources.base import ParseError

TAR = "application/x-tar"


def pack(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A tar of (name, bytes), in the order given; empty if there is none."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, body in members:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return buffer.getvalue()


def unpack(body: bytes, max_bytes: int) -> dict[str, bytes]:
    """Members by name, each cut at `max_bytes`. Raises `ParseError` if the tar is broken."""
    try:
        with tarfile.open(fileobj=io.BytesIO(body), mode="r:") as tar:
            return {m.name: (tar.extractfile(m) or io.BytesIO()).read(max_bytes) for m in tar if m.isfile()}
    except tarfile.TarError:
        raise ParseError("the bundle of files is broken; load them again") from None
