"""A part of a tick that fails costs what it would have told, and nothing else.

Belongs here: errors that nobody foresaw (a text that is not UTF-8, a structure of another size), told when they begin
and when they end. Does not belong here: what NVML's return codes mean (`nvml_errors.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sources.telemetry.nvml_errors import DeviceLostError, DriverDownError, said_of
from sources.telemetry.nvml_ledger import Emit, NullLedger

COLLECTOR_ERROR: Final = "collector_error"


class Guard:
    """Runs parts and remembers which of them fail.

    `notify` takes one line for a person, once for each failure. `ledgers`: tables whose reasons others write too.
    """

    def __init__(
        self, emit: Emit, notify: Callable[[str], None], ledgers: Mapping[str, NullLedger] | None = None
    ) -> None:
        self._emit, self._notify = emit, notify
        self._ledgers: dict[str, NullLedger] = dict(ledgers or {})
        self._failing: set[tuple[str, str, str]] = set()

    def run(self, at_us: int, device: str, table: str, part: str, call: Callable[[], None]) -> bool:
        """Run one part. An error is the reason why `part` of `table` is unknown for the device; False then.

        Raises `DeviceLostError` and `DriverDownError`, which concern more than the part.
        """
        try:
            call()
        except (DeviceLostError, DriverDownError):
            raise
        except Exception as error:  # noqa: BLE001 - what nobody foresaw must not end the other parts
            self.fail(at_us, device, table, part, error)
            return False
        self.recover(at_us, device, table, part)
        return True

    def fail(self, at_us: int, device: str, table: str, part: str, error: Exception) -> None:
        """The part fails from now on; told once."""
        said = said_of(error)
        self._ledger(table).begin(at_us, device, part, COLLECTOR_ERROR, said)
        if (device, table, part) not in self._failing:
            self._failing.add((device, table, part))
            self._notify(f"{table} of {device} cannot be read ({part}: {said}); the other readings go on")

    def recover(self, at_us: int, device: str, table: str, part: str) -> None:
        """The part works; told if it did not."""
        if (device, table, part) in self._failing:
            self._failing.discard((device, table, part))
            self._ledger(table).end(at_us, device, part)

    def fails(self, device: str, table: str, part: str) -> bool:
        """Whether the part failed when it was last run."""
        return (device, table, part) in self._failing

    def _ledger(self, table: str) -> NullLedger:
        return self._ledgers.setdefault(table, NullLedger(self._emit, table=table))
