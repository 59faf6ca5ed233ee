"""A filing as one payload: its exhibits and what EDGAR says of it, in one tar whose bytes depend on nothing else.

Belongs here: packing, unpacking, grouping local files into filings. Does not belong here: finding filings
(`submissions.py`), reading them.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sources.base import ParseError, Payload
from sources.sec.documents import document_name, read_text
from sources.sec.filing import Exhibit
from sources.sec.htmltables import sgml_field

META_NAME = "filing.json"
MEDIA_TYPE = "application/x-tar"
_EXHIBIT_IN_NAME = re.compile(r"[_-](EX-?99[.\d-]*)", re.IGNORECASE)
_MAX_MEMBER = 64 << 20


def pack(meta: Mapping[str, str], members: Sequence[tuple[str, bytes]]) -> bytes:
    """Tar of `filing.json` and the members in the order given; same input, same bytes."""
    body = io.BytesIO()
    head = json.dumps(dict(sorted(meta.items())), sort_keys=True).encode()
    with tarfile.open(fileobj=body, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in [(META_NAME, head), *members]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return body.getvalue()


def unpack(payload: Payload) -> tuple[dict[str, str], list[Exhibit]]:
    """(what EDGAR says of the filing, its exhibits) of a packed payload or of one bare document. Raises `ParseError`."""
    name = document_name(payload)
    body = payload.read()
    if not body.strip():
        raise ParseError(f"{name}: the file is empty; fetch it again")
    if not tarfile.is_tarfile(io.BytesIO(body)):
        return dict(payload.meta), [_exhibit(name, read_text(payload))]
    meta: dict[str, str] = {}
    exhibits: list[Exhibit] = []
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() and member.size <= _MAX_MEMBER else None
            if stream is None:
                raise ParseError(f"{name}: {member.name} in it is no plain file of sensible size")
            data = stream.read()
            if member.name == META_NAME:
                meta = {str(k): str(v) for k, v in json.loads(data).items()}
            else:
                part = Payload(payload.source, f"file:{member.name}", payload.retrieved_at, "text/html", data)
                exhibits.append(_exhibit(member.name, read_text(part)))
    if not exhibits:
        raise ParseError(f"{name}: holds no document")
    return meta, exhibits


def _exhibit(name: str, html: str) -> Exhibit:
    """An exhibit with its type: what the SGML wrapper says, else what its name says."""
    kind = sgml_field(html, "TYPE") or (m[1].upper() if (m := _EXHIBIT_IN_NAME.search(name)) else "")
    # EDGAR once carried the type "EX-99..1".
    return Exhibit(name, re.sub(r"\.{2,}", ".", kind), html)


def group_local(files: Sequence[tuple[Path, str]]) -> Iterator[list[tuple[Path, str]]]:
    """Local exhibits of one filing together: those whose names agree up to `EX-99`, in one folder."""
    groups: dict[str, list[tuple[Path, str]]] = {}
    for file, name in files:
        stem = _EXHIBIT_IN_NAME.split(file.name, maxsplit=1)[0]
        groups.setdefault(str(file.parent / stem), []).append((file, name))
    for key in sorted(groups):
        yield sorted(groups[key], key=lambda item: item[1])
