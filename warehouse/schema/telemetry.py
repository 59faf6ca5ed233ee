"""`telemetry.gpu_samples`: one reading of one GPU, and the columns every telemetry table carries.

Belongs here: raw samples. Roll-ups are in `telemetry_rollups.py`, links, events, inventory, node states and
power meters in `telemetry_fleet.py`, jobs in `jobs.py`.
"""

from __future__ import annotations

import datetime as dt

from sqlmodel import SQLModel

from warehouse.schema.declare import UTC_TIME, col, table_info


class Observed(SQLModel):
    """Columns of every telemetry table: which cluster, seen by which collector, real or synthetic."""

    cluster: str = col("name of the cluster, as its operator calls it", key=True)
    source: str = col("collector that saw it: nvml, dcgm-exporter, nvidia-smi, …", key=True)
    is_synthetic: bool = col("true for generated demonstration data")


class GpuSample(Observed, table=True):
    """One reading of one GPU (or MIG instance) at one instant. Counters keep their raw value; null is not known.

    Why a value is null stands in `telemetry.null_reasons`. Board-scope readings (power, energy, temperature,
    ECC, links) belong to the board's row: on a MIG instance's row they are null.
    """

    __tablename__ = "gpu_samples"
    __table_args__ = table_info(
        "telemetry",
        "Raw GPU readings. Grain: one GPU or MIG instance at one instant as seen by one collector. "
        "Key: sampled_at, cluster, node, gpu_uuid, source.",
        kind="telemetry",
        partition_by=("date",),
        publish_as="view",
        steady=("power_w", "temperature_c", "memory_total_bytes", "sm_clock_mhz"),
        checks=(
            ("power_within_twice_limit", "warning", "power_w > 2 * power_limit_w"),
            ("memory_used_within_total", "warning", "memory_used_bytes > memory_total_bytes"),
        ),
    )
    sampled_at: dt.datetime = col("when the reading was taken, UTC", key=True, sa_type=UTC_TIME)
    node: str = col("host name of the node", key=True)
    gpu_uuid: str = col("UUID of the GPU or MIG instance; never its index", key=True)
    parent_gpu_uuid: str | None = col("UUID of the board, on the row of a MIG instance")
    gpu_index: int | None = col("index the driver gave at that time; changes after a reboot", ge=0, le=1024)
    accelerator_id: str | None = col("model, as in `ref.accelerators`")
    power_w: float | None = col("board power, 1 s average on Ampere (except GA100) and later", unit="W", ge=0, le=1e5)
    power_instant_w: float | None = col("board power, instantaneous", unit="W", ge=0, le=1e5)
    power_limit_w: float | None = col("enforced power limit", unit="W", ge=0, le=1e5)
    module_power_w: float | None = col(
        "CPU and GPU module power (Grace only); contains board power", unit="W", ge=0, le=1e5
    )
    energy_j: float | None = col("energy counter since driver load; restarts at 0 on reload or reset", unit="J", ge=0)
    gpu_util_ratio: float | None = col(
        "share of time a kernel ran; not occupancy, unknown on MIG", unit="ratio", ge=0, le=1
    )
    memory_util_ratio: float | None = col("share of time memory was read or written", unit="ratio", ge=0, le=1)
    graphics_active_ratio: float | None = col("share of time the graphics engine was active", unit="ratio", ge=0, le=1)
    sm_active_ratio: float | None = col("share of SMs busy", unit="ratio", ge=0, le=1)
    sm_occupancy_ratio: float | None = col("active warps over the most possible", unit="ratio", ge=0, le=1)
    tensor_active_ratio: float | None = col("share of cycles a tensor pipe was active", unit="ratio", ge=0, le=1)
    dram_active_ratio: float | None = col("share of memory bandwidth in use", unit="ratio", ge=0, le=1)
    memory_used_bytes: int | None = col("memory in use, without reserved", unit="bytes", ge=0, le=2**50)
    memory_total_bytes: int | None = col("memory of the GPU or MIG instance", unit="bytes", ge=0, le=2**50)
    memory_reserved_bytes: int | None = col("memory the driver keeps", unit="bytes", ge=0, le=2**50)
    temperature_c: float | None = col("GPU temperature", unit="°C", ge=-60, le=200)
    memory_temperature_c: float | None = col("memory temperature; null where no sensor", unit="°C", ge=-60, le=200)
    sm_clock_mhz: int | None = col("SM clock", unit="MHz", ge=0, le=20_000)
    memory_clock_mhz: int | None = col("memory clock", unit="MHz", ge=0, le=50_000)
    graphics_clock_mhz: int | None = col("graphics clock", unit="MHz", ge=0, le=20_000)
    performance_state: int | None = col("P-state: 0 fastest … 15 slowest", ge=0, le=15)
    fan_speed_ratio: float | None = col("fan speed over its nominal maximum; can pass 1", unit="ratio", ge=0, le=5)
    event_reasons: int | None = col("NVML clocks-event bit mask at that instant", ge=0)
    throttle_power_cap_ns: int | None = col("time held back by the power cap, counter", unit="ns", ge=0)
    throttle_sw_thermal_ns: int | None = col("time held back by software thermal slowdown, counter", unit="ns", ge=0)
    throttle_hw_thermal_ns: int | None = col("time held back by hardware thermal slowdown, counter", unit="ns", ge=0)
    throttle_power_brake_ns: int | None = col("time held back by the power brake signal, counter", unit="ns", ge=0)
    nvlink_tx_bytes: int | None = col("data sent over all NVLinks, counter", unit="bytes", ge=0)
    nvlink_rx_bytes: int | None = col("data received over all NVLinks, counter", unit="bytes", ge=0)
    pcie_tx_bytes: int | None = col("data sent over PCIe, counter; wraps", unit="bytes", ge=0)
    pcie_rx_bytes: int | None = col("data received over PCIe, counter; wraps", unit="bytes", ge=0)
    nvlink_tx_bytes_per_s: float | None = col("NVLink send rate, where it is a gauge", unit="bytes/s", ge=0, le=1e14)
    nvlink_rx_bytes_per_s: float | None = col("NVLink receive rate, where it is a gauge", unit="bytes/s", ge=0, le=1e14)
    pcie_tx_bytes_per_s: float | None = col("PCIe send rate, where it is a gauge", unit="bytes/s", ge=0, le=1e13)
    pcie_rx_bytes_per_s: float | None = col("PCIe receive rate, where it is a gauge", unit="bytes/s", ge=0, le=1e13)
    pcie_link_generation: int | None = col("current PCIe generation; 1 when idle is normal", ge=0, le=16)
    pcie_link_width: int | None = col("current PCIe lanes", ge=0, le=64)
    pcie_replay_count: int | None = col("PCIe replays, counter", ge=0)
    ecc_corrected_count: int | None = col("corrected ECC errors since driver load, counter", ge=0)
    ecc_uncorrected_count: int | None = col("uncorrected ECC errors since driver load, counter", ge=0)
    remapped_corrected_rows: int | None = col("rows remapped after corrected errors", ge=0)
    remapped_uncorrected_rows: int | None = col("rows remapped after uncorrected errors", ge=0)
    remap_pending: int | None = col("1 while a row remapping waits for a reset", ge=0, le=1)
    remap_failed: int | None = col("1 once a row remapping failed", ge=0, le=1)
    retired_pages: int | None = col("memory pages retired (Volta and earlier)", ge=0)
    recovery_action: int | None = col(
        "what NVML asks for: 0 nothing, 1 GPU reset, 2 reboot, 3 drain P2P, 4 drain and reset, …", ge=0, le=64
    )
    date: dt.date = col("UTC day of sampled_at; the partition")
