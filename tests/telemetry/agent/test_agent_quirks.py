"""The ways the driver lies or hurts that the agent must stand, numbered as in the field guide."""

from __future__ import annotations

import signal

import polars as pl
from agent_machine import Machine, uuid_of


def test_quirk_16_zeros_of_the_legacy_fields_are_not_taken_for_health_on_hopper(machine: Machine) -> None:
    # All legacy fields of link 4 answer SUCCESS with 0; the Hopper call says 5 replays.
    machine.say("0 fi.50 0", "0 fi.36 0", "0 fi.43 0", "0 fi.57 0", "0 nv.4.0 5")
    machine.command("--once")
    told = {
        r["counter"]: r["value"]
        for r in machine.records("link_counter")
        if (r["device"], r["link_index"], r["link_kind"]) == (uuid_of(0), 4, "nvlink")
    }
    assert told["replay"] == 5


def test_quirk_29_a_gpu_keeps_its_values_when_a_reboot_renumbers(machine: Machine) -> None:
    machine.command("--once")
    machine.say("* renumber 3")
    machine.command("--once")
    rows = machine.samples().select("gpu_uuid", "gpu_index", "power_w").rows()
    before, after = rows[:8], rows[8:]
    assert before == [(uuid_of(gpu), gpu, 300.0 + gpu) for gpu in range(8)]
    assert after == [(uuid_of(gpu), (gpu - 3) % 8, 300.0 + gpu) for gpu in range(8)]


def test_quirk_33_sigterm_lets_go_of_the_driver_before_the_process_ends(machine: Machine) -> None:
    machine.start_command("--interval", "0.2")
    machine.until_rows()
    assert not machine.released.exists()
    assert machine.stop(signal.SIGTERM) == 0
    assert machine.released.exists()


def test_quirk_36_a_driver_that_answers_unknown_error_to_everything_is_lost_and_looked_for_again(
    machine: Machine,
) -> None:
    every = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetUtilizationRates",
             "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperature",
             "nvmlDeviceGetTemperatureV", "nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons",
             "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetPerformanceState")  # fmt: skip
    machine.start(slow_s=60)  # the first tick has had its slow readings
    machine.until_rows()
    machine.say(*(f"3 err.{name} 999" for name in every))
    machine.until(lambda: machine.events("lost"))
    (lost,) = machine.events("lost")
    assert (lost["gpu_uuid"], lost["event_id"]) == (uuid_of(3), "unknown_error")
    machine.say()
    machine.until(lambda: machine.events("returned"))
    machine.until_rows(16)
    newest = machine.samples().filter(pl.col("sampled_at") == pl.col("sampled_at").max())
    assert newest["gpu_uuid"].to_list() == [uuid_of(gpu) for gpu in range(8)]


def test_quirk_42_memory_is_in_bytes_as_the_driver_counts_it(machine: Machine) -> None:
    machine.say("0 mem_used 501219328", "0 mem_reserved 524288001")  # 478.0 MiB and a byte over 500 MiB
    machine.command("--once")
    row = machine.samples().row(by_predicate=pl.col("gpu_uuid") == uuid_of(0), named=True)
    assert (row["memory_used_bytes"], row["memory_reserved_bytes"]) == (501219328, 524288001)
