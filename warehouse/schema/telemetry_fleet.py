"""Links, events, inventory, node states, power meters and the reasons for nulls.

Belongs here: telemetry tables beside the GPU samples. Jobs and training steps are in `jobs.py`.
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, col, table_info
from warehouse.schema.telemetry import Observed

DEVICE = "GPU UUID, else the device's own name (mlx5_0), else its PCI bus id"
GROWTH = "growth since the row before; after a restart the value itself; null where not known"
LINK_STATUS = "how delta came about: counted, first, reset, wrapped, saturated, unreadable"


class LinkReading(Observed):
    """What is read of a counter of one link."""

    sampled_at: dt.datetime = col("when the counter was read, UTC", key=True, sa_type=UTC_TIME)
    node: str = col("host name of the node or switch", key=True)
    device: str = col(DEVICE, key=True)
    link_kind: str = col("nvlink, infiniband, roce, ethernet, xgmi, pcie, c2c, hccs, …", key=True)
    link_index: int = col("link or port number on the device", key=True, ge=0, le=100_000)
    counter: str = col("what is counted: replay, recovery, crc_flit, crc_data, symbol_error, …", key=True)
    value: int | None = col("raw value; null where the counter could not be read", ge=0)
    date: dt.date = col("UTC day of sampled_at; the partition")


class LinkCounter(LinkReading, table=True):
    """A counter of one link: a row when it changed, and a heartbeat row every hour."""

    __tablename__ = "link_counters"
    __table_args__ = table_info(
        "telemetry",
        "Counters of NVLink, InfiniBand, RoCE, XGMI and other links. Grain: one counter of one link at one "
        "instant. Key: sampled_at, cluster, node, device, link_kind, link_index, counter, source.",
        kind="telemetry",
        partition_by=("date",),
        publish_as="view",
        published_from="telemetry.link_growth",
    )
    delta: int | None = col(GROWTH, at_publish=True, ge=0)
    delta_status: str | None = col(LINK_STATUS, at_publish=True)


class LinkGrowth(LinkReading, table=True):
    """The rows of `telemetry.link_counters` with their growth, as they are published."""

    __tablename__ = "link_growth"
    __table_args__ = table_info(
        "telemetry",
        "Growth of link counters. Grain: as `telemetry.link_counters`, which is published from it. Key: as there.",
        kind="derived",
        partition_by=("date",),
    )
    delta: int | None = col(GROWTH, ge=0)
    delta_status: str | None = col(LINK_STATUS)


class GpuEvent(Observed, table=True):
    """Something that happened to a GPU, link or node: an XID, a loss, a return, a gap."""

    __tablename__ = "gpu_events"
    __table_args__ = table_info(
        "telemetry",
        "Events: XIDs, SXIDs, lost and returned GPUs. Grain: one event of one device as seen by one collector. "
        "Key: occurred_at, cluster, node, device, kind, event_id, source.",
        kind="telemetry",
    )
    occurred_at: dt.datetime = col("when it happened, UTC", key=True, sa_type=UTC_TIME)
    node: str = col("host name of the node", key=True)
    device: str = col(DEVICE + ", else `node`", key=True)
    kind: str = col(
        "xid, sxid, lost, returned, ecc, remap, throttle, link_down, …; xid_last: a code that a gauge held at its first "
        "reading, of an unknown time",
        key=True,
    )
    event_id: str = col(
        "tells events of one instant apart: the code, with sub-code and link where there are any", key=True
    )
    gpu_uuid: str | None = col("UUID of the GPU, where known")
    pci_bus_id: str | None = col("PCI bus id, where the event names it")
    code: int | None = col("XID or SXID number, where there is one", ge=0)
    subcode: str | None = col("sub-code or sub-system, as printed")
    link_index: int | None = col("link the event names", ge=0, le=100_000)
    severity: str | None = col("info, warning, error or fatal", one_of=("info", "warning", "error", "fatal"))
    action: str | None = col("what the vendor's catalogue says to do, in its word (RESET_GPU, RESTART_APP, …)")
    pid: int | None = col("process the event names", ge=0)
    process_name: str | None = col("name of that process")
    message: str | None = col("the line as it was logged")


class Inventory(Observed, table=True):
    """A board in a slot, from the instant it was first seen so until something changed."""

    __tablename__ = "inventory"
    __table_args__ = table_info(
        "telemetry",
        "Which board sat where with which firmware. Grain: one GPU in one state from valid_from on. "
        "Key: valid_from, cluster, node, gpu_uuid, source.",
        kind="telemetry",
    )
    valid_from: dt.datetime = col("first seen so, UTC", key=True, sa_type=UTC_TIME)
    valid_to: dt.datetime | None = col("until the next state; null while current", sa_type=UTC_TIME)
    node: str = col("host name of the node", key=True)
    gpu_uuid: str = col("UUID of the GPU or MIG instance", key=True)
    parent_gpu_uuid: str | None = col("UUID of the board, for a MIG instance")
    gpu_index: int | None = col("index the driver gave", ge=0, le=1024)
    gpu_serial: str | None = col("serial number of the board; none on consumer cards")
    accelerator_id: str | None = col("model, as in `ref.accelerators`")
    gpu_name: str | None = col("name the driver gives")
    pci_bus_id: str | None = col("PCI bus id, domain:bus:device.function")
    module_id: int | None = col("module position on the baseboard", ge=0, le=1024)
    board_part_number: str | None = col("part number of the board")
    vbios: str | None = col("VBIOS version")
    inforom: str | None = col("InfoROM image version")
    driver: str | None = col("driver version")
    cuda: str | None = col("CUDA version the driver supports")
    gsp_firmware: str | None = col("GSP firmware version")
    memory_total_bytes: int | None = col("memory of the board or instance", unit="bytes", ge=0, le=2**50)
    power_limit_w: float | None = col("enforced power limit", unit="W", ge=0, le=1e5)
    power_limit_requested_w: float | None = col(
        "power limit asked for on the node; the enforced one may be lower", unit="W", ge=0, le=1e5
    )
    power_limit_default_w: float | None = col("power limit after a driver load", unit="W", ge=0, le=1e5)
    power_limit_min_w: float | None = col("lowest power limit the board takes", unit="W", ge=0, le=1e5)
    power_limit_max_w: float | None = col("highest power limit the board takes", unit="W", ge=0, le=1e5)
    temperature_slowdown_c: float | None = col(
        "GPU temperature at which hardware slows down; null where the board gives a margin instead",
        unit="°C",
        ge=-60,
        le=200,
    )
    temperature_shutdown_c: float | None = col(
        "GPU temperature at which the board shuts down; null where it gives a margin instead", unit="°C", ge=-60, le=200
    )
    sm_clock_max_mhz: int | None = col("highest SM clock", unit="MHz", ge=0, le=20_000)
    memory_clock_max_mhz: int | None = col("highest memory clock", unit="MHz", ge=0, le=50_000)
    pcie_link_generation_max: int | None = col("highest PCIe generation that board and slot can do", ge=0, le=16)
    pcie_link_width_max: int | None = col("most PCIe lanes that board and slot can do", ge=0, le=64)
    nvlink_count: int | None = col("NVLinks of the board", ge=0, le=1024)
    mig_profile: str | None = col("profile of a MIG instance, as 1g.10gb")
    is_mig_enabled: bool | None = col("true while the board is split into MIG instances")
    is_ecc_enabled: bool | None = col("true while ECC is on")
    fabric_cluster_uuid: str | None = col("NVLink fabric the GPU belongs to")
    fabric_clique_id: int | None = col("clique within the fabric", ge=0)
    fabric_state: str | None = col(
        "registration with the NVLink fabric: not_supported, not_started, in_progress, completed or failed"
    )
    fabric_health: str | None = col(
        "healthy, or what the driver says is wrong with the fabric: degraded_bandwidth, route_recovery, "
        "route_unhealthy, access_timeout_recovery, incorrect_configuration, comma separated"
    )
    chassis_serial: str | None = col("serial number of the chassis")
    rack: str | None = col("rack, as the operator calls it")
    slot: str | None = col("slot or tray within the rack or chassis")
    boot_id: str | None = col("boot of the node the state was seen in")


class NodeState(Observed, table=True):
    """What a scheduler or operator says of a node, from the instant it was first seen so."""

    __tablename__ = "node_states"
    __table_args__ = table_info(
        "telemetry",
        "States of nodes. Grain: one node in one state from valid_from on. Key: valid_from, cluster, node, source.",
        kind="telemetry",
    )
    valid_from: dt.datetime = col("first seen so, UTC", key=True, sa_type=UTC_TIME)
    valid_to: dt.datetime | None = col("until the next state; null while current", sa_type=UTC_TIME)
    node: str = col("host name of the node", key=True)
    state: str = col("idle, allocated, mixed, drain, draining, down, maint, unknown, …")
    reason: str | None = col("reason given for the state")
    reason_by: str | None = col("who or what gave the reason")


class PowerReading(Observed, table=True):
    """A power meter outside the GPU: facility, rack, chassis, node, power supply, module."""

    __tablename__ = "power_readings"
    __table_args__ = table_info(
        "telemetry",
        "Readings of power meters other than the GPU's own. Grain: one meter at one instant. "
        "Key: sampled_at, cluster, scope, device, source.",
        kind="telemetry",
        publish_as="view",
    )
    sampled_at: dt.datetime = col("when the meter was read, UTC", key=True, sa_type=UTC_TIME)
    scope: str = col(
        "what the meter covers: facility, it, cooling, row, rack, pdu, chassis, node, psu, cpu, …", key=True
    )
    device: str = col("name of the meter or of what it covers", key=True)
    node: str | None = col("host name of the node, where the meter covers one node")
    rack: str | None = col("rack, where the meter belongs to one")
    power_w: float | None = col("power", unit="W", ge=0, le=1e10)
    power_min_w: float | None = col("lowest power in the meter's own window", unit="W", ge=0, le=1e10)
    power_mean_w: float | None = col("mean power in the meter's own window", unit="W", ge=0, le=1e10)
    power_max_w: float | None = col("highest power in the meter's own window", unit="W", ge=0, le=1e10)
    window_seconds: float | None = col("length of that window", unit="s", ge=0)
    power_limit_w: float | None = col("limit set on the meter", unit="W", ge=0, le=1e10)
    power_capacity_w: float | None = col("capacity of what the meter covers", unit="W", ge=0, le=1e10)
    energy_j: float | None = col("energy counter", unit="J", ge=0)


class NullReason(Observed, table=True):
    """Why a column of a telemetry table is null for a device over a span of time."""

    __tablename__ = "null_reasons"
    __table_args__ = table_info(
        "telemetry",
        "Why a value is null. Grain: one column of one table for one device from from_at on. "
        "Key: from_at, cluster, node, device, table_name, column_name, source.",
        kind="telemetry",
    )
    from_at: dt.datetime = col("first instant the value was null for this reason, UTC", key=True, sa_type=UTC_TIME)
    to_at: dt.datetime | None = col("last instant; null while it lasts", sa_type=UTC_TIME)
    node: str = col("host name of the node", key=True)
    device: str = col(DEVICE + "; `*` for every device of the node", key=True)
    table_name: str = col("table the column is in, as gpu_samples", key=True)
    column_name: str = col("column that is null; `*` for the whole row (a gap)", key=True)
    reason: str = col(
        "not_supported, no_permission, lost, blank, out_of_range, implausible, spool_dropped, disk_full, …"
    )
    raw_value: str | None = col("the value that was refused, as it was read")
