"""nvidia-smi: saved output of `-q -x`, `-q`, `--query-gpu … --format=csv`, `nvlink -s` and `nvlink -e`.

Belongs here: telling the outputs apart; captures that hold several. Does not belong here: their shapes and units.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

import polars as pl

from sources.base import Parsed, ParseError, Payload, Reject
from sources.telemetry_inputs.context import PLACE, LocalInput, Where, instant, text_of
from sources.telemetry_inputs.nvidia_smi_convert import to_frames
from sources.telemetry_inputs.nvidia_smi_outputs import read_csv, read_text, read_xml
from sources.telemetry_inputs.nvlink_text import HEAD, read_nvlink

SECTION = re.compile(r"^#{20,}\n# (?P<title>\w+ :: .*)\n(?:# .*\n)*#{20,}\n", re.MULTILINE)
QUARTER_HOUR = 900


class NvidiaSmi(LocalInput):
    """Command-line output of NVIDIA's driver."""

    name = "nvidia-smi"
    publisher = "NVIDIA"
    homepage = "https://docs.nvidia.com/deploy/nvidia-smi/"
    tables = ("telemetry.gpu_samples", "telemetry.link_counters", "telemetry.inventory", "telemetry.null_reasons")
    options = (*PLACE, "utc_offset")

    def parse(self, payload: Payload) -> Parsed:
        """Rows by the kind of output. Raises `ParseError` for one that is none of them or names no UUID."""
        where = Where.of(payload)
        text = text_of(payload, "the output of nvidia-smi")
        head = text.lstrip()
        if head.startswith("<"):
            return to_frames(read_xml(payload.read()), where, "the XML", [], where.clock_ahead())
        if SECTION.search(text):
            return _capture(text, where)
        if "NVSMI LOG" in text:
            return to_frames(read_text(text), where, "the text", [], where.clock_ahead())
        if HEAD.search(text):
            return read_nvlink(text, where)
        if re.match(r"#\s*gpu\s+pwr", head):
            raise ParseError("dmon names GPUs by index and prints no time: save --query-gpu with uuid and timestamp")
        if head.startswith("NVIDIA-SMI has failed") or "Failed to initialize NVML" in text:
            raise ParseError(f"nvidia-smi itself failed: {head.splitlines()[0][:120]}")
        raw, rejects = read_csv(text)
        return to_frames(raw, where, "the CSV", rejects, where.clock_ahead())


def sections(text: str) -> Mapping[str, str]:
    """Parts of a capture file by their titles."""
    marks = list(SECTION.finditer(text))
    ends = [*(m.start() for m in marks[1:]), len(text)]
    return {m["title"]: text[m.end() : end].strip("\n") for m, end in zip(marks, ends, strict=True)}


def _capture(text: str, where: Where) -> Parsed:
    """A file of several outputs under titles: its CSV queries and its NVLink state; the rest repeats them."""
    collected = re.search(r"^collected_at:\s*(\S+)", text, re.MULTILINE)
    known = instant(collected[1], "collected_at") if collected else None
    tables: list[pl.DataFrame] = []
    rejects: list[Reject] = []
    links: list[Parsed] = []
    for title, body in sections(text).items():
        if "query-gpu (csv" in title:
            raw, wrong = read_csv(body)
            tables.append(raw)
            rejects += wrong
        elif "nvlink" in title and HEAD.search(body) and "Link " in body:
            at = Where(where.cluster, where.node, known or where.observed_at, where.options)
            links.append(read_nvlink(body, at))
    if not tables:
        raise ParseError("the capture holds no --query-gpu output: save nvidia-smi --query-gpu=… --format=csv")
    raw = pl.concat(tables, how="diagonal")
    read = to_frames(raw, where, "the capture", rejects, where.clock_ahead() or _clock_ahead(raw, known))
    frames = dict(read.frames)
    for one in links:
        frames.update(one.frames)
    return Parsed(frames, read.rejects)


def _clock_ahead(raw: pl.DataFrame, collected: dt.datetime | None) -> dt.timedelta:
    """The node's UTC offset, from the capture's own UTC time against nvidia-smi's first local stamp."""
    if collected is None or "@time" not in raw.columns:
        return dt.timedelta()
    try:
        local = dt.datetime.strptime(raw["@time"][0], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=dt.UTC)
    except (TypeError, ValueError):
        return dt.timedelta()
    return dt.timedelta(seconds=round((local - collected).total_seconds() / QUARTER_HOUR) * QUARTER_HOUR)


SOURCE = NvidiaSmi()
