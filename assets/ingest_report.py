"""What an ingest did, and what a person is told of it.

Belongs here: counts, which segments were held back and why, what to run. Does not belong here: landing, files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from assets.street import StreetReport, named
from assets.waiting import Waiting
from warehouse.home import Home

MOST_TOLD = 3


@dataclass(slots=True)
class IngestReport(StreetReport):
    """A street report with what ingest adds: segments retired, damage by file, and what a person may let land.

    doubted: segments that `--accept` can land; remedy: the command for it.
    """

    segments: int = 0
    damage: list[str] = field(default_factory=list)
    doubted: int = 0
    remedy: str = ""

    def complaints(self) -> Iterator[str]:
        """Blocked batches and what to do about them, then damaged segments (whose whole records did land)."""
        yield from StreetReport.complaints(self)
        if self.doubted:
            held = "1 segment is" if self.doubted == 1 else f"{self.doubted} segments are"
            yield f"{held} held back in quarantine/ until you have looked: {self.remedy}"
        yield from self.damage

    def name(self, key: str, segments: Sequence[Waiting]) -> None:
        """The segments of a part, as a complaint about it names them."""
        self.urls[key] = named([w.path.name for w in segments])

    def still_held(self, judged: Sequence[Waiting]) -> None:
        """Segments that were refused before and came again."""
        for one in judged:
            why = why_not(one) or "its batch was held back (ops.loads tells why)"
            self.still_blocked.append((one.path.name, why))


def why_not(one: Waiting) -> str:
    """Why a segment cannot land, or not without a person; empty text where nothing is wrong with it by itself."""
    return one.problem or (f"{one.node}: {one.doubt}" if one.doubt else "")


def why_none(wrong: Sequence[Waiting]) -> str:
    """Why none of these can land: each reason once, as far as a line has room."""
    several = sorted({why_not(one) for one in wrong})
    more = f"; and {len(several) - MOST_TOLD} more" if len(several) > MOST_TOLD else ""
    advice = "; set the clock, then --accept lands the segment" if any(one.doubt for one in wrong) else ""
    return "; ".join(several[:MOST_TOLD]) + more + advice


def remedy(home: Home) -> str:
    """What to run once a person has looked."""
    return f"{accept_command(home)} lands them; delete what is not wanted"


def accept_command(home: Home) -> str:
    """The call that lands what only a person may let land."""
    return f"`almanac ingest --home {home.root} --inbox {home.quarantine} --accept`"
