"""`telemetry.gpu_minutes` and `telemetry.gpu_hours`: what a GPU did in a minute or an hour.

Belongs here: the two roll-up tables, which differ only in their bucket. Does not belong here: how they are
computed (`assets/telemetry_rollup.py`).
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, col, table_info
from warehouse.schema.telemetry import Observed

_GRAIN = (
    "Grain: one GPU or MIG instance in one {0} as seen by one collector. Key: {0}_at, cluster, node, gpu_uuid, source."
)


class RolledUp(Observed):
    """Columns of a roll-up. Means are over samples, zeros included; a null mean has a count of 0."""

    node: str = col("host name of the node", key=True)
    gpu_uuid: str = col("UUID of the GPU or MIG instance", key=True)
    parent_gpu_uuid: str | None = col("UUID of the board, on the row of a MIG instance")
    gpu_index: int | None = col("index the driver gave last", ge=0, le=1024)
    accelerator_id: str | None = col("model, as in `ref.accelerators`")
    sample_count: int = col("samples in the bucket; 0 where only an interval between samples reaches into it", ge=0)
    seconds_covered: float = col(
        "time between samples no further apart than three usual intervals (at most 300 s)", unit="s", ge=0, le=3600
    )
    energy_j: float | None = col("energy over energy_seconds", unit="J", ge=0)
    energy_method: str | None = col(
        "counter: differences of the energy counter; trapezoid: power between samples; mixed: some of each",
        one_of=("counter", "trapezoid", "mixed"),
    )
    energy_seconds: float = col("part of seconds_covered whose energy is known", unit="s", ge=0, le=3600)
    gap_energy_j: float | None = col(
        "energy the counter gained over gaps of at most an hour that ended in this bucket; not in energy_j",
        unit="J",
        ge=0,
    )
    power_mean_w: float | None = col("mean board power", unit="W", ge=0, le=1e5)
    power_min_w: float | None = col("lowest board power", unit="W", ge=0, le=1e5)
    power_max_w: float | None = col("highest board power", unit="W", ge=0, le=1e5)
    power_count: int = col("samples with a power reading", ge=0)
    power_limit_w: float | None = col("highest enforced power limit", unit="W", ge=0, le=1e5)
    gpu_util_mean_ratio: float | None = col("mean share of time a kernel ran", unit="ratio", ge=0, le=1)
    gpu_util_max_ratio: float | None = col("highest share of time a kernel ran", unit="ratio", ge=0, le=1)
    gpu_util_count: int = col("samples with a utilisation reading", ge=0)
    sm_active_mean_ratio: float | None = col("mean share of SMs busy", unit="ratio", ge=0, le=1)
    sm_occupancy_mean_ratio: float | None = col("mean occupancy", unit="ratio", ge=0, le=1)
    tensor_active_mean_ratio: float | None = col(
        "mean share of cycles a tensor pipe was active", unit="ratio", ge=0, le=1
    )
    tensor_active_max_ratio: float | None = col("highest such share", unit="ratio", ge=0, le=1)
    tensor_active_count: int = col("samples with a tensor reading", ge=0)
    dram_active_mean_ratio: float | None = col("mean share of memory bandwidth in use", unit="ratio", ge=0, le=1)
    memory_used_mean_bytes: float | None = col("mean memory in use", unit="bytes", ge=0, le=2**50)
    memory_used_max_bytes: int | None = col("most memory in use", unit="bytes", ge=0, le=2**50)
    memory_total_bytes: int | None = col("memory of the GPU or MIG instance", unit="bytes", ge=0, le=2**50)
    temperature_mean_c: float | None = col("mean GPU temperature", unit="°C", ge=-60, le=200)
    temperature_max_c: float | None = col("highest GPU temperature", unit="°C", ge=-60, le=200)
    memory_temperature_max_c: float | None = col("highest memory temperature", unit="°C", ge=-60, le=200)
    sm_clock_mean_mhz: float | None = col("mean SM clock", unit="MHz", ge=0, le=20_000)
    sm_clock_min_mhz: int | None = col("lowest SM clock", unit="MHz", ge=0, le=20_000)
    event_reasons: int | None = col("every clocks-event bit seen", ge=0)
    inactive_seconds: float | None = col(
        "covered time with tensor below 1 % and SMs below 5 % active (no kernel, where those are not known)",
        unit="s",
        ge=0,
        le=3600,
    )
    throttle_power_cap_seconds: float | None = col("time held back by the power cap", unit="s", ge=0)
    throttle_sw_thermal_seconds: float | None = col("time held back by software thermal slowdown", unit="s", ge=0)
    throttle_hw_thermal_seconds: float | None = col("time held back by hardware thermal slowdown", unit="s", ge=0)
    throttle_power_brake_seconds: float | None = col("time held back by the power brake", unit="s", ge=0)
    nvlink_tx_delta_bytes: int | None = col("data sent over NVLink", unit="bytes", ge=0)
    nvlink_rx_delta_bytes: int | None = col("data received over NVLink", unit="bytes", ge=0)
    pcie_tx_delta_bytes: int | None = col("data sent over PCIe", unit="bytes", ge=0)
    pcie_rx_delta_bytes: int | None = col("data received over PCIe", unit="bytes", ge=0)
    pcie_replay_delta_count: int | None = col("PCIe replays", ge=0)
    ecc_corrected_delta_count: int | None = col("corrected ECC errors", ge=0)
    ecc_uncorrected_delta_count: int | None = col("uncorrected ECC errors", ge=0)
    remapped_uncorrected_rows: int | None = col("rows remapped after uncorrected errors, as last read", ge=0)
    remap_pending: int | None = col("1 where a row remapping waited for a reset, as last read", ge=0, le=1)
    remap_failed: int | None = col("1 where a row remapping had failed, as last read", ge=0, le=1)
    retired_pages: int | None = col("memory pages retired, as last read", ge=0)
    recovery_action: int | None = col("what NVML asked for, as last read (see gpu_samples)", ge=0, le=64)
    pcie_link_width_min: int | None = col("fewest PCIe lanes seen", ge=0, le=64)
    pcie_link_generation_max: int | None = col("highest PCIe generation seen; it drops while idle", ge=0, le=16)
    counter_reset_count: int = col(
        "restarts of the energy counter (driver reload, GPU reset, reboot) between samples at most an hour apart", ge=0
    )


class GpuMinute(RolledUp, table=True):
    """One GPU in one minute."""

    __tablename__ = "gpu_minutes"
    __table_args__ = table_info(
        "telemetry",
        "GPU readings by minute. " + _GRAIN.format("minute"),
        kind="telemetry",
        partition_by=("date",),
        publish_as="view",
    )
    minute_at: dt.datetime = col("start of the minute, UTC", key=True, sa_type=UTC_TIME)
    date: dt.date = col("UTC day of minute_at; the partition")


class GpuHour(RolledUp, table=True):
    """One GPU in one hour."""

    __tablename__ = "gpu_hours"
    __table_args__ = table_info(
        "telemetry",
        "GPU readings by hour. " + _GRAIN.format("hour"),
        kind="telemetry",
        partition_by=("date",),
    )
    hour_at: dt.datetime = col("start of the hour, UTC", key=True, sa_type=UTC_TIME)
    date: dt.date = col("UTC day of hour_at; the partition")
