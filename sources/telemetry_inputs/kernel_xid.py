"""Saved kernel logs: NVIDIA's Xid and SXid lines, and GPUs that fell off the bus; SXids in Fabric Manager's log.

Belongs here: dmesg, journal, /dev/kmsg and fabricmanager.log lines as events, with the catalogue's action. Does not
belong here: the live tail (the agent's), collapsing storms into incidents.
"""

from __future__ import annotations

import datetime as dt

import polars as pl

from sources.base import Parsed, ParseError, Payload, Reject
from sources.telemetry_inputs.context import PLACE, UTC_US, LocalInput, Where, stripped, table, text_of

OFF_THE_BUS = 79
BUS = r"(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?)"
SHORT_BUS = r"GPU (?:at PCI:)?((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
XID = rf"NVRM: Xid \({BUS}\): (\d+)"
SXID = rf"SXid \({BUS}\): (\d+)"
# One message over three lines names the GPU two lines before it says what happened.
FELL = r"NVRM:.*fallen off the bus"
# Fabric Manager tells the same errors of its switches in words of its own; what it calls a port is the link.
FABRIC = rf"detected NVSwitch (?:non-fatal|fatal) error (\d+) on fid \d+ on NVSwitch pci bus id {BUS}(?:.* port (\d+))?"
SPEAKS = r"NVRM: Xid|SXid|fallen off the bus|detected NVSwitch .* error"
# Dates: dmesg -T, syslog (no year), the journal's ISO time, and seconds (dmesg) or microseconds (/dev/kmsg) since boot.
CTIME = r"^\[?([A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2} \d{4})\]?"
ISO = r"^\[?(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2}))\]?"
FABRIC_TIME = r"^\[([A-Z][a-z]{2} +\d{1,2} \d{4} \d{2}:\d{2}:\d{2})\]"
SYSLOG = r"^([A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2}) \S+ kernel:"
HOST = r"^(?:[A-Z][a-z]{2} +\d{1,2} [\d:]{8}|\d{4}-\d{2}-\d{2}[T ]\S+) (\S+) kernel: ?"
SINCE_BOOT = r"^\[\s*(\d+\.\d+)\]"
KMSG = r"^\d+,\d+,(\d+),[^;]*;"
PREFIXES = (HOST, CTIME, FABRIC_TIME, ISO, SINCE_BOOT, KMSG, r"^\[\.\.\.\]", r"^<\d+>")
STAMPS = (CTIME, FABRIC_TIME, ISO, SYSLOG, SINCE_BOOT, KMSG)


class KernelXid(LocalInput):
    """Kernel logs that hold Xid lines."""

    name = "kernel-xid"
    publisher = "NVIDIA kernel driver"
    homepage = "https://docs.nvidia.com/deploy/xid-errors/"
    tables = ("telemetry.gpu_events",)
    options = (*PLACE, "boot_at", "utc_offset")

    def parse(self, payload: Payload) -> Parsed:
        """Events, each line one. Raises `ParseError` if a line has no time and nobody said when."""
        where = Where.of(payload)
        lines = pl.DataFrame({"raw": text_of(payload, "the kernel log").split("\n")}).with_row_index("line", offset=1)
        if not lines["raw"].str.contains("|".join((*STAMPS, SPEAKS))).any():
            raise ParseError("this is no kernel log (no line has the time of dmesg, journal, kmsg or Fabric Manager)")
        lines = _named(lines)
        spoken = lines.filter(pl.col("raw").str.contains(SPEAKS))
        fits = pl.col("pci_bus_id").is_not_null() & pl.col("code").is_not_null()
        rejects = [
            Reject(
                "telemetry.gpu_events", "the line names device and code", "no bus id or no code", raw, f"line {number}"
            )
            for number, raw in spoken.filter(~fits).select("line", stripped("raw")).iter_rows()
        ]
        events = _timed(spoken.filter(fits), where)
        return Parsed({"telemetry.gpu_events": _events(events, where)}, rejects)


def _named(lines: pl.DataFrame) -> pl.DataFrame:
    """Add kind, code, pci_bus_id and the GPU's UUID where an earlier line of the log tells it."""
    raw = pl.col("raw")
    short = raw.str.extract(SHORT_BUS, 1)
    full = pl.when(short.str.count_matches(":") == 1).then(pl.lit("0000:") + short).otherwise(short)
    # "NVRM: The NVIDIA GPU 0000:18:00.0" stands up to two lines above "fallen off the bus".
    opened = raw.str.contains(r"NVRM: The NVIDIA GPU")
    above = pl.when(opened).then(full.fill_null("")).otherwise(None).forward_fill(limit=2).replace("", None)
    fell = raw.str.contains(FELL) & ~raw.str.contains(r"Xid \(")
    named = lines.with_columns(
        pl.when(raw.str.contains("SXid|detected NVSwitch")).then(pl.lit("sxid")).otherwise(pl.lit("xid")).alias("kind"),
        pl.coalesce(
            raw.str.extract(XID, 2),
            raw.str.extract(SXID, 2),
            raw.str.extract(FABRIC, 1),
            pl.when(fell).then(pl.lit(str(OFF_THE_BUS))),
        )
        .cast(pl.Int64, strict=False)
        .alias("code"),
        pl.coalesce(
            raw.str.extract(XID, 1),
            raw.str.extract(SXID, 1),
            raw.str.extract(FABRIC, 2).str.replace(r"^0000([0-9A-Fa-f]{4}:)", "${1}"),
            pl.when(fell).then(pl.coalesce(full, above)),
        )
        .str.to_lowercase()
        .str.replace(r"\.[0-9a-f]$", "")  # an Xid line names no function, the others do: one device, one id
        .alias("pci_bus_id"),
    )
    told = named.select(
        raw.str.extract(r"GPU at (?:PCI:)?([0-9A-Fa-f:.]+): (GPU-[0-9a-f-]+)", 1)
        .str.to_lowercase()
        .str.replace(r"\.[0-9a-f]$", "")  # an Xid line names no function, the others do: one device, one id
        .alias("pci_bus_id"),
        raw.str.extract(r"GPU at (?:PCI:)?[0-9A-Fa-f:.]+: (GPU-[0-9a-f-]+)", 1).alias("gpu_uuid"),
    ).drop_nulls()
    return named.join(told.unique("pci_bus_id", keep="last"), on="pci_bus_id", how="left", maintain_order="left")


def _timed(events: pl.DataFrame, where: Where) -> pl.DataFrame:
    """Add occurred_at: the line's own time; since boot only with the option boot_at; else when the log was read."""
    raw = pl.col("raw")
    local = raw.str.extract(CTIME, 1).str.replace_all(r"\s+", " ")
    stamped = local.str.to_datetime("%a %b %e %H:%M:%S %Y", time_unit="us", strict=False)
    fabric = raw.str.extract(FABRIC_TIME, 1).str.replace_all(r"\s+", " ")
    stamped = pl.coalesce(stamped, fabric.str.to_datetime("%b %e %Y %H:%M:%S", time_unit="us", strict=False))
    ahead = pl.lit(where.clock_ahead())
    absolute = pl.coalesce(
        (pl.coalesce(stamped, _with_year(raw.str.extract(SYSLOG, 1), where)) - ahead).dt.replace_time_zone("UTC"),
        raw.str.extract(ISO, 1)
        .str.replace(",", ".")
        .str.replace(" ", "T")
        .str.to_datetime(time_zone="UTC", time_unit="us", strict=False),
    ).cast(UTC_US)
    seconds = pl.coalesce(
        raw.str.extract(SINCE_BOOT, 1).cast(pl.Float64) * 1e6, raw.str.extract(KMSG, 1).cast(pl.Float64)
    )
    boot = where.instant_of_boot()
    since = pl.lit(boot, dtype=UTC_US) + pl.duration(microseconds=seconds.round().cast(pl.Int64))
    timed = events.with_columns(pl.coalesce(absolute, since).alias("occurred_at"))
    if timed["occurred_at"].null_count():
        return timed.with_columns(pl.col("occurred_at").fill_null(_read_at(where)))
    return timed


def _with_year(text: pl.Expr, where: Where) -> pl.Expr:
    """Syslog prints no year: it is the last one in which the line is not later than the reading of the log."""
    if where.observed_at is None:
        return pl.lit(None, dtype=pl.Datetime("us"))
    limit = where.observed_at.replace(tzinfo=None) + dt.timedelta(days=1)
    even = text.str.replace_all(r"\s+", " ")

    def in_year(year: int) -> pl.Expr:
        return (even + f" {year}").str.to_datetime("%b %e %H:%M:%S %Y", time_unit="us", strict=False)

    this = in_year(limit.year)
    return pl.when(this <= limit).then(this).otherwise(in_year(limit.year - 1))


def _read_at(where: Where) -> dt.datetime:
    if where.observed_at is None:
        raise ParseError(
            "some lines count seconds since boot or carry no time: give the boot's time with -o boot_at=T, "
            "or say when the log was read with --observed-at"
        )
    return where.observed_at


def _events(events: pl.DataFrame, where: Where) -> pl.DataFrame:
    raw = pl.col("raw")
    printed = raw.str.extract(r"(?i)\b(non-?fatal|fatal)\b", 1).str.to_lowercase().str.replace("-", "")
    spoken = printed.replace_strict({"fatal": "fatal", "nonfatal": "warning"}, default=None, return_dtype=pl.String)
    named_link = pl.coalesce(raw.str.extract(r"\b[Ll]ink (\d+)\b", 1), raw.str.extract(FABRIC, 3))
    link = named_link.cast(pl.Int64, strict=False)
    subcode = raw.str.extract(r": \d+, (?:pid=[^,]*, (?:name=[^,]*, )?)?([A-Z][A-Z0-9_]{2,})\s+(?:Non-?)?[Ff]atal", 1)
    pid = raw.str.extract(r"pid='?(\d+)'?", 1).cast(pl.Int64, strict=False)
    process = raw.str.extract(r"name='?([^,<']+)'?", 1)
    catalogue = table("xid_actions.csv").select(
        pl.col("code").cast(pl.Int64), "action", pl.col("severity").alias("usual"), pl.lit("xid").alias("kind")
    )
    message = raw
    for prefix in PREFIXES:
        message = message.str.replace(prefix, "")
    found = events.with_columns(
        spoken.alias("spoken"),
        link.alias("link_index"),
        subcode.alias("subcode"),
        pid.alias("pid"),
        process.alias("process_name"),
        message.str.strip_chars().alias("message"),
        pl.coalesce(raw.str.extract(HOST, 1), pl.lit(where.node)).alias("node"),
    ).join(catalogue, on=["code", "kind"], how="left", maintain_order="left")
    said = pl.concat_str(
        [pl.col("code"), pl.col("subcode"), pl.lit("link") + pl.col("link_index").cast(pl.String)],
        separator=":",
        ignore_nulls=True,
    )
    found = found.with_columns(
        pl.coalesce("gpu_uuid", "pci_bus_id").alias("device"),
        pl.coalesce("spoken", "usual").alias("severity"),
        said.alias("event_id"),
        stripped("message").alias("message"),
        pl.lit(where.cluster).alias("cluster"),
    )
    # A storm prints one line again within the same second: none of them is lost.
    nth = pl.col("line").rank("ordinal").over("occurred_at", "device", "kind", "event_id")
    repeated = pl.when(nth > 1).then(pl.format("{}#{}", "event_id", nth)).otherwise("event_id")
    return found.with_columns(repeated.alias("event_id"), pl.lit(value=False).alias("is_synthetic")).select(
        "occurred_at",
        "cluster",
        "node",
        "device",
        "kind",
        "event_id",
        "gpu_uuid",
        "pci_bus_id",
        "code",
        "subcode",
        "link_index",
        "severity",
        "action",
        "pid",
        "process_name",
        "message",
        "is_synthetic",
    )


SOURCE = KernelXid()
