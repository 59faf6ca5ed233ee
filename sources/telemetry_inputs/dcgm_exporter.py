"""dcgm-exporter and its kin: the text that `/metrics` answers, saved to a file.

Belongs here: the source. Does not belong here: the format (`exposition`), the meaning of metrics (`metrics`).
"""

from __future__ import annotations

from sources.base import Parsed, ParseError, Payload
from sources.telemetry_inputs.context import LocalInput, Where, text_of
from sources.telemetry_inputs.exposition import read_exposition
from sources.telemetry_inputs.metrics import gap_frame, to_frames

EXPORTER_TABLES = (
    "telemetry.gpu_samples",
    "telemetry.link_counters",
    "telemetry.gpu_events",
    "telemetry.inventory",
    "telemetry.power_readings",
    "telemetry.null_reasons",
)


class DcgmExporter(LocalInput):
    """Text expositions of dcgm-exporter, nvidia_gpu_exporter, the jobstats exporter and CEEMS (node power)."""

    name = "dcgm-exporter"
    publisher = "NVIDIA"
    homepage = "https://github.com/NVIDIA/dcgm-exporter"
    tables = EXPORTER_TABLES

    def parse(self, payload: Payload) -> Parsed:
        """Rows of the telemetry tables; an answer that announces metrics and gives none is a gap. Raises `ParseError`.

        An empty file is refused: nothing says that an exporter answered at all.
        """
        where = Where.of(payload)
        series, rejects = read_exposition(text_of(payload, "the exposition"))
        if not series.height and not rejects:
            return gap_frame(where, "the exposition")
        if not series.height:
            raise ParseError(f"none of its {len(rejects)} lines is a metric: save the body that /metrics answers")
        return to_frames(series, where, "the exposition", rejects)


SOURCE = DcgmExporter()
