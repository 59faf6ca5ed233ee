"""What is told of a board beside its samples: ECC errors by place in the memory, and the processes that use it.

Belongs here: slow tables by board. Samples are in `telemetry.py`, links, events and inventory in `telemetry_fleet.py`.
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, col, table_info
from warehouse.schema.telemetry import Observed
from warehouse.schema.telemetry_fleet import GROWTH

ECC_STATUS = "how delta came about: counted, first, reset, unreadable"


class EccReading(Observed):
    """What is read of an ECC counter of a board."""

    sampled_at: dt.datetime = col("when the counter was read, UTC", key=True, sa_type=UTC_TIME)
    node: str = col("host name of the node", key=True)
    gpu_uuid: str = col("UUID of the GPU", key=True)
    error_kind: str = col("corrected or uncorrected", key=True, one_of=("corrected", "uncorrected"))
    counter_span: str = col(
        "volatile: since the driver was loaded; aggregate: since the board's counters were cleared",
        key=True,
        one_of=("volatile", "aggregate"),
    )
    location: str = col("l1, l2, dram, register_file, texture, cbu, sram, or total over all of them", key=True)
    value: int | None = col("raw value; null where the counter could not be read", ge=0)
    date: dt.date = col("UTC day of sampled_at; the partition")


class EccCounter(EccReading, table=True):
    """ECC errors of one kind in one memory of a board: a row when the count changed, and a heartbeat every hour."""

    __tablename__ = "ecc_counters"
    __table_args__ = table_info(
        "telemetry",
        "ECC errors by memory. Grain: one counter of one GPU at one instant. "
        "Key: sampled_at, cluster, node, gpu_uuid, error_kind, counter_span, location, source.",
        kind="telemetry",
        partition_by=("date",),
        publish_as="view",
        published_from="telemetry.ecc_growth",
    )
    delta: int | None = col(GROWTH, at_publish=True, ge=0)
    delta_status: str | None = col(ECC_STATUS, at_publish=True)


class EccGrowth(EccReading, table=True):
    """The rows of `telemetry.ecc_counters` with their growth, as they are published."""

    __tablename__ = "ecc_growth"
    __table_args__ = table_info(
        "telemetry",
        "Growth of ECC counters. Grain: as `telemetry.ecc_counters`, which is published from it. Key: as there.",
        kind="derived",
        partition_by=("date",),
    )
    delta: int | None = col(GROWTH, ge=0)
    delta_status: str | None = col(ECC_STATUS)


class GpuProcess(Observed, table=True):
    """A process on a GPU, from the instant it was first seen there. No user, no arguments: only the program's name."""

    __tablename__ = "gpu_processes"
    __table_args__ = table_info(
        "telemetry",
        "Compute processes on GPUs. Grain: one process on one GPU or MIG instance from from_at on. "
        "Key: from_at, cluster, node, gpu_uuid, pid, source.",
        kind="telemetry",
    )
    from_at: dt.datetime = col("first seen, UTC", key=True, sa_type=UTC_TIME)
    to_at: dt.datetime | None = col("seen to be gone, or last seen; null while it runs", sa_type=UTC_TIME)
    node: str = col("host name of the node", key=True)
    gpu_uuid: str = col("UUID of the GPU or MIG instance", key=True)
    pid: int = col("process id in the node's own numbering", key=True, ge=0)
    process_name: str | None = col("name of the program, at most 15 characters; null where it cannot be read")
    memory_used_bytes: int | None = col("most GPU memory it was seen to hold", unit="bytes", ge=0, le=2**50)
