"""GPUs and drivers are lost and come back, calls hang, ticks are late, signals end the run: nothing written is lost."""

from __future__ import annotations

import signal
import time

import polars as pl
import pytest
from agent_machine import Machine, uuid_of


def count(machine: Machine, gpu: int) -> int:
    samples = machine.samples()
    return samples.filter(gpu_uuid=uuid_of(gpu)).height if samples.height else 0


@pytest.mark.parametrize(("key", "reason"), [("lost", "gpu_is_lost"), ("gone", "gpu_not_found")])
def test_one_gpu_is_lost_and_returns_while_the_others_go_on(machine: Machine, key: str, reason: str) -> None:
    machine.start()
    machine.until_rows()
    machine.say(f"5 {key} 1")
    machine.until(lambda: machine.events("lost"))
    before = count(machine, 5)
    machine.until_rows(21)
    assert count(machine, 5) == before
    assert count(machine, 0) > before
    machine.say()
    machine.until(lambda: machine.events("returned"))
    machine.until(lambda: count(machine, 5) > before)
    (lost,), (returned,) = machine.events("lost"), machine.events("returned")
    assert (lost["gpu_uuid"], lost["device"], lost["event_id"]) == (uuid_of(5), uuid_of(5), reason)
    assert lost["pci_bus_id"] == "00000000:15:00.0"
    assert returned["gpu_uuid"] == uuid_of(5)
    assert (lost["severity"], returned["severity"]) == ("fatal", "info")
    rows = [r for r in machine.records("null_reason") if r["device"] == uuid_of(5) and r["column_name"] == "*"]
    assert [(r["reason"], r["to_at"] is None) for r in rows] == [("lost", True), ("lost", False)]


def test_a_gpu_that_is_dead_from_the_start_hides_no_other(machine: Machine) -> None:
    machine.say("2 lost 1")
    machine.start()
    machine.until_rows(14)
    samples = machine.samples()
    assert set(samples["gpu_uuid"]) == {uuid_of(gpu) for gpu in range(8) if gpu != 2}
    (lost,) = machine.events("lost")
    assert (lost["device"], lost["gpu_uuid"], lost["event_id"]) == ("node", None, "index:2")
    machine.say()
    machine.until(lambda: [e for e in machine.events("returned") if e["gpu_uuid"] == uuid_of(2)])
    machine.until(lambda: count(machine, 2) > 1)


def test_a_gpu_this_process_may_not_open_is_said_and_not_lost(machine: Machine) -> None:
    machine.say("6 err.nvmlDeviceGetHandleByIndex_v2 4")
    done = machine.command("--once")
    assert done.returncode == 0
    assert machine.samples().height == 7
    assert not machine.events("lost")
    told = [(r["device"], r["column_name"]) for r in machine.records("null_reason") if r["reason"] == "no_permission"]
    assert ("index:6", "*") in told


def test_a_driver_that_goes_away_is_initialised_again(machine: Machine) -> None:
    machine.start()
    machine.until_rows()
    machine.say("* err.nvmlDeviceGetFieldValues 9", "* init_error 9")
    machine.until(lambda: len(machine.events("lost")) == 8)
    assert {e["event_id"] for e in machine.events("lost")} == {"driver_not_loaded"}
    stood = machine.samples().height
    time.sleep(0.5)
    assert machine.samples().height == stood
    machine.say()
    machine.until(lambda: len(machine.events("returned")) == 8)
    machine.until_rows(16)
    assert len(machine.events("lost")) == 8


def test_an_exchanged_driver_ends_the_process_with_everything_sealed(machine: Machine) -> None:
    machine.start_command("--interval", "0.2")
    machine.until_rows()
    machine.say("* err.nvmlDeviceGetFieldValues 18")
    assert machine.wait() == 75
    assert "start the agent again" in machine.output()
    assert not list(machine.spool.glob("*.open"))
    assert all(not segment.damage for segment in machine.segments())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_seals_what_was_written(machine: Machine, number: int) -> None:
    machine.start_command("--interval", "0.2")
    machine.until_rows(24)
    assert machine.stop(number) == 0
    assert not list(machine.spool.glob("*.open"))
    segments = machine.segments()
    assert all(not segment.damage for segment in segments)
    assert f"{machine.samples().height} samples" in machine.output()


def test_a_hung_call_is_noticed_and_what_was_written_is_sealed(machine: Machine) -> None:
    machine.start_command("--interval", "0.2", "--hang-after", "1")
    machine.until_rows(16)
    machine.say("2 hang.nvmlDeviceGetUtilizationRates 60")
    hung_at = time.time()
    assert machine.wait() == 75
    assert time.time() - hung_at < 5
    assert not list(machine.spool.glob("*.open"))
    assert all(not segment.damage for segment in machine.segments())
    (gap,) = [g for g in machine.records("gap") if g["reason"] == "driver_hung"]
    assert gap["from_at"].timestamp() == pytest.approx(hung_at, abs=1.5)
    assert gap["to_at"] > gap["from_at"]
    assert machine.samples().height >= 16


def test_a_hung_event_wait_is_noticed_too(machine: Machine) -> None:
    machine.say("* hang.nvmlEventSetWait_v2 60")
    machine.start_command("--interval", "0.2", "--hang-after", "1")
    assert machine.wait() == 75
    assert not list(machine.spool.glob("*.open"))


def test_a_signal_ends_a_hung_agent(machine: Machine) -> None:
    machine.start_command("--interval", "0.2", "--hang-after", "600")
    machine.until_rows()
    machine.say("2 hang.nvmlDeviceGetUtilizationRates 60")
    time.sleep(0.5)
    assert machine.stop() == 75
    assert not list(machine.spool.glob("*.open"))


def test_missed_ticks_are_told_and_later_ticks_stay_on_their_grid(machine: Machine) -> None:
    machine.start(slow_s=60)
    machine.until_rows(16)
    machine.say("0 hang.nvmlDeviceGetPerformanceState 1.1")
    machine.until(lambda: machine.records("gap"))
    machine.say()
    machine.until_rows(32)
    gap = max(machine.records("gap"), key=lambda row: int(str(row["rows"])))
    assert gap["reason"] == "missed_ticks"
    # A tick of 1.1 s or a little more at 0.2 s: at least four deadlines passed unread besides the one kept late.
    ticks = round((gap["to_at"] - gap["from_at"]).total_seconds() / 0.2) + 1
    assert gap["rows"] == ticks * 8
    assert 4 <= ticks <= 8
    times = machine.samples()["sampled_at"].unique().sort()
    first, last = times[0].timestamp(), times[-1].timestamp()
    assert (last - first + 0.05) % 0.2 < 0.15  # still a whole number of intervals after the first tick


def test_without_a_driver_one_reading_is_an_error_that_says_what_to_do(bare_machine: Machine) -> None:
    done = bare_machine.command("--once")
    assert done.returncode == 1
    assert "library_not_found" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_agent_that_starts_before_the_driver_waits_for_it(machine: Machine) -> None:
    machine.say("* init_error 9")
    machine.start()
    time.sleep(0.6)
    machine.say()
    machine.until_rows(16)
    (gap,) = machine.records("gap")
    assert gap["reason"] == "driver_not_loaded"
    assert not machine.events("lost")


def test_gpus_present_follows_the_driver(machine: Machine, bare_machine: Machine) -> None:
    code = "from sources.telemetry.agent import gpus_present; print(gpus_present())"
    assert bare_machine.run_python(code).stdout == "False\n"
    assert machine.run_python(code).stdout == "True\n"
    machine.say("* count 0")
    assert machine.run_python(code).stdout == "False\n"


def test_the_agent_imports_nothing_beyond_its_install(bare_machine: Machine) -> None:
    code = (
        "import sys, pipelines.commands.collect, sources.telemetry.agent\n"
        "allowed = sys.stdlib_module_names | {'click', 'pynvml', 'pipelines', 'sources', '__main__'}\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} - allowed))\n"
    )
    found = bare_machine.run_python(code).stdout
    # An editable install and site hooks load themselves; no data library may be among them.
    assert not {"polars", "numpy", "httpx", "dagster", "duckdb", "pyarrow", "sqlmodel", "warehouse"} & set(eval(found))  # noqa: S307


def test_segments_at_the_start_are_few(machine: Machine) -> None:
    machine.command("--once")
    assert len(list(machine.spool.glob("*.seg"))) == 1


def test_gpu_rows_share_the_instant_of_their_tick(machine: Machine) -> None:
    machine.command("--interval", "0.2", "--duration", "0.5")
    per_tick = machine.samples().group_by("sampled_at").agg(pl.len())
    assert per_tick["len"].unique().to_list() == [8]
