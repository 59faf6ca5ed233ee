"""First look at a document from EDGAR: is it what was asked for?

Belongs here: telling JSON and HTML from error pages, decoding, the SGML wrapper. Does not belong here: what a
document says.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from sources.base import ParseError, Payload
from sources.texts import decoded

_REFUSED = ("undeclared automated tool", "request rate threshold exceeded", "access denied")


def document_name(payload: Payload) -> str:
    """The last part of the payload's address, for messages and for what a file name states."""
    return PurePosixPath(payload.url.partition("?")[0].removeprefix("file:")).name or payload.url


def read_text(payload: Payload) -> str:
    """The body as text. Raises `ParseError` when it is empty or a refusal page of EDGAR."""
    body = payload.read()
    name = document_name(payload)
    if not body.strip():
        raise ParseError(f"{name}: the file is empty; fetch it again")
    text = decoded(body)
    head = text[:4000].lower()
    if any(mark in head for mark in _REFUSED):
        raise ParseError(f"{name}: this is a refusal page of EDGAR, not the document; set a contact address and retry")
    return text


def read_json(payload: Payload) -> dict[str, object]:
    """The body as one JSON object. Raises `ParseError` that says what stands there instead."""
    text = read_text(payload)
    name = document_name(payload)
    if text.lstrip()[:1] == "<":
        raise ParseError(f"{name}: HTML stands where JSON was due; fetch it again")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"{name}: JSON breaks off or is damaged at character {error.pos}; fetch it again") from error
    if not isinstance(value, dict):
        raise ParseError(f"{name}: a JSON object was due, found {type(value).__name__}")
    return value
