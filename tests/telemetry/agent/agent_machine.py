"""A node with the stub driver, and the agent that runs on it in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from sources.telemetry.segment import Segment, read_segment

AGENT = (
    "import json, sys; from sources.telemetry.agent import collect; collect(**json.loads(sys.argv[1]), notify=print)"
)
COMMAND = "from pipelines.cli import main; main()"


def uuid_of(gpu: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{gpu:012d}"


class Machine:
    """A node with the stub driver: `say` edits what the driver answers, `start` runs the agent."""

    def __init__(self, driver: Path, folder: Path) -> None:
        self.spool = folder / "spool"
        self._control = folder / "control"
        self._env = dict(os.environ, LD_LIBRARY_PATH=str(driver), NVML_STUB_CONTROL=str(self._control))
        self.released = Path(f"{self._control}.released")
        self.process: subprocess.Popen[str] | None = None
        self.say()

    def say(self, *lines: str) -> None:
        """Replace everything the control file says; lines are `gpu key value`."""
        fresh = self._control.with_suffix(".new")
        fresh.write_text("".join(line + "\n" for line in lines))
        fresh.replace(self._control)

    def run_python(self, code: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *args], env=self._env, text=True, capture_output=True, timeout=30, check=False
        )

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run_python(COMMAND, "collect", "--spool", str(self.spool), "--node", "n1", *args)

    def _popen(self, code: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *args],
            env=self._env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def start_command(self, *args: str) -> None:
        self._popen(COMMAND, "collect", "--spool", str(self.spool), "--node", "n1", *args)

    def start(self, **options: object) -> None:
        """Run `collect` with times short enough for a test."""
        given = {"interval_s": 0.2, "retry_s": 0.3, "slow_s": 0.2, "duration_s": 20, "node": "n1", **options}
        self._popen(AGENT, json.dumps({"spool_dir": str(self.spool), **given}))

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.wait()

    def wait(self, timeout: float = 15) -> int:
        assert self.process
        self.process.wait(timeout)
        return self.process.returncode

    def output(self) -> str:
        assert self.process
        assert self.process.stdout
        return self.process.stdout.read()

    def segments(self) -> list[Segment]:
        """Everything in the spool, also what is still being written."""
        found = [*self.spool.glob("*.seg"), *self.spool.glob("*.open")] if self.spool.exists() else []
        read = []
        for path in sorted(found):
            try:
                read.append(read_segment(path))
            except FileNotFoundError:  # sealed and renamed between the listing and the reading
                read.append(read_segment(path.with_suffix(".seg")))
        return [segment for segment in read if segment.header]

    def samples(self) -> pl.DataFrame:
        frames = [segment.samples for segment in self.segments() if segment.samples.height]
        return pl.concat(frames).sort("sampled_at", "gpu_uuid") if frames else pl.DataFrame()

    def records(self, kind: str) -> list[dict[str, object]]:
        return [
            row for segment in self.segments() if kind in segment.records for row in segment.records[kind].to_dicts()
        ]

    def events(self, kind: str) -> list[dict[str, object]]:
        return [row for row in self.records("gpu_event") if row["kind"] == kind]

    def until(self, condition: Callable[[], object], timeout: float = 12) -> None:
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, f"waited {timeout} s in vain"
            assert self.process is None or self.process.poll() is None, f"the agent ended: {self.output()}"
            time.sleep(0.05)

    def until_rows(self, more: int = 8) -> None:
        """Until so many further samples were written."""
        already = self.samples().height
        self.until(lambda: self.samples().height >= already + more)

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
            if self.process.stdout:
                self.process.stdout.close()
