"""Text out of bytes: what a byte-order mark says, else UTF-8.

Belongs here: encodings. Does not belong here: any format. Windows tools write UTF-16 where their output is redirected
into a file, so captures and exports come in it.
"""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(body: bytes) -> str:
    """The codec of a text: by its mark, else by where its first zero byte stands, else UTF-8."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return name
    match body[0:1] == b"\0", body[1:2] == b"\0":
        case False, True:
            return "utf-16-le"
        case True, False:
            return "utf-16-be"
    return "utf-8"


def decoded(body: bytes, errors: str = "replace") -> str:
    """The text of a document, without its mark. `errors` as in `bytes.decode`."""
    return body.decode(encoding_of(body), errors)
