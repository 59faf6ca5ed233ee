"""The ways telemetry lies that can reach these parsers, one test for each, numbered as in the field guide."""

from __future__ import annotations

import datetime as dt
import json

import polars as pl
import pytest
from telemetry_rows import NOON, one

from sources.base import ParseError
from sources.telemetry_inputs.context import table
from sources.telemetry_inputs.metrics import metric_map

SAMPLES, LINKS, EVENTS = "telemetry.gpu_samples", "telemetry.link_counters", "telemetry.gpu_events"
INVENTORY, NULLS, POWER = "telemetry.inventory", "telemetry.null_reasons", "telemetry.power_readings"
GPU = "GPU-11111111-2222-3333-4444-555555555555"


def line(metric: str, value: str, labels: str = "") -> str:
    return f'{metric}{{gpu="0",UUID="{GPU}",Hostname="n1"{labels}}} {value}\n'


def matrix(metric: str, *points: tuple[float, str], **labels: str) -> str:
    series = {"metric": {"__name__": metric, "UUID": GPU, "Hostname": "n1", **labels}, "values": points}
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}})


def test_quirk_01_mig_repeats_the_boards_power(parse):
    text = "".join(
        line("DCGM_FI_DEV_POWER_USAGE", f"30{gi}.5", f',GPU_I_PROFILE="1g.6gb",GPU_I_ID="{gi}"')
        + line("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", f"10{gi}000", f',GPU_I_PROFILE="1g.6gb",GPU_I_ID="{gi}"')
        + line("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", f"0.{gi}", f',GPU_I_PROFILE="1g.6gb",GPU_I_ID="{gi}"')
        for gi in (3, 4, 5, 6)
    )
    parsed = parse("dcgm-exporter", text)
    samples = parsed.frames[SAMPLES]
    board = one(samples, gpu_uuid=GPU)
    assert (board["parent_gpu_uuid"], board["power_w"], board["energy_j"]) == (None, 303.5, 103.0)
    assert samples.select(pl.col("power_w", "energy_j").count()).row(0) == (1, 1)
    parts = samples.filter(pl.col("parent_gpu_uuid") == GPU).sort("gpu_uuid")
    assert parts["tensor_active_ratio"].to_list() == [0.3, 0.4, 0.5, 0.6]
    assert parsed.rejects == []


def test_quirk_02_nvlink_bandwidth_total_is_no_counter(parse):
    text = "# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter\n" + line("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "512")
    parsed = parse("dcgm-exporter", text + line("DCGM_FI_DEV_GPU_TEMP", "40"))
    assert LINKS not in parsed.frames
    assert "nvlink_tx_bytes" not in parsed.frames[SAMPLES].columns


def test_quirk_03_profiling_bytes_are_rates_whatever_their_type_says(parse):
    text = "# TYPE DCGM_FI_PROF_NVLINK_TX_BYTES counter\n" + line("DCGM_FI_PROF_NVLINK_TX_BYTES", "1000")
    row = one(parse("dcgm-exporter", text).frames[SAMPLES])
    assert row["nvlink_tx_bytes_per_s"] == 1000.0
    assert "nvlink_tx_bytes" not in row


@pytest.mark.parametrize("value", ["686103", "334905", "4294967295"])
def test_quirk_04_impossible_utilisation(parse, value):
    parsed = parse("dcgm-exporter", line("DCGM_FI_DEV_GPU_UTIL", value) + line("DCGM_FI_DEV_GPU_TEMP", "40"))
    assert one(parsed.frames[SAMPLES])["gpu_util_ratio"] is None
    why = one(parsed.frames[NULLS], column_name="gpu_util_ratio")
    assert (why["reason"], why["raw_value"]) == ("out_of_range", value)


def test_quirk_04_impossible_utilisation_from_nvidia_smi(parse):
    text = f"timestamp, uuid, utilization.gpu [%], temperature.gpu\n2026/01/01 00:00:00.000, {GPU}, 4294967295 %, 40\n"
    parsed = parse("nvidia-smi", text)
    assert one(parsed.frames[SAMPLES])["gpu_util_ratio"] is None
    why = one(parsed.frames[NULLS])
    assert (why["column_name"], why["reason"], why["raw_value"]) == ("gpu_util_ratio", "out_of_range", "4294967295 %")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2147483632", "blank"),
        ("2147483633", "not_found"),
        ("2147483634", "not_supported"),
        ("2147483635", "no_permission"),
        ("9223372036854775792", "blank"),
        ("9223372036854775794", "blank"),
        ("9.223372036854775808e+18", "blank"),
        ("140737488355328", "blank"),
        ("140737488355329", "not_found"),
        ("140737488355330", "not_supported"),
        ("140737488355331.000000", "no_permission"),
        ("<<<NOT_SUPPORTED>>>", "not_supported"),
        ("NaN", "not_a_number"),
        ("+Inf", "not_a_number"),
    ],
)
def test_quirk_05_dcgm_blank(parse, value, reason):
    parsed = parse("dcgm-exporter", line("DCGM_FI_DEV_POWER_USAGE", value) + line("DCGM_FI_DEV_GPU_TEMP", "40"))
    assert one(parsed.frames[SAMPLES])["power_w"] is None
    assert one(parsed.frames[NULLS], column_name="power_w")["reason"] == reason


def test_quirk_05_a_counter_may_hold_what_looks_like_a_32_bit_blank(parse):
    parsed = parse("dcgm-exporter", line("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "2147483632"))
    assert one(parsed.frames[SAMPLES])["energy_j"] == pytest.approx(2147483.632)


def test_quirk_06_blank_times_a_hundred(parse):
    parsed = parse(
        "dcgm-exporter", line("DCGM_FI_PROF_SM_ACTIVE", "1.40737488355328e16") + line("DCGM_FI_DEV_GPU_TEMP", "40")
    )
    assert one(parsed.frames[NULLS], column_name="sm_active_ratio")["reason"] == "blank"


def test_quirk_07_profiling_dead_after_xid_31(parse):
    dead = line("DCGM_FI_DEV_GPU_UTIL", "100") + line("DCGM_FI_DEV_POWER_USAGE", "610")
    for name in ("GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE"):
        dead += line(f"DCGM_FI_PROF_{name}", "0.000000")
    parsed = parse("dcgm-exporter", dead)
    row = one(parsed.frames[SAMPLES])
    assert (row["gpu_util_ratio"], row["power_w"], row["tensor_active_ratio"]) == (1.0, 610.0, None)
    assert set(parsed.frames[NULLS]["reason"]) == {"implausible"}
    idle = one(parse("dcgm-exporter", dead.replace("} 100", "} 0")).frames[SAMPLES])
    assert idle["tensor_active_ratio"] == 0.0


def test_quirk_08_memory_temperature_of_zero(parse):
    parsed = parse("dcgm-exporter", line("DCGM_FI_DEV_MEMORY_TEMP", "0") + line("DCGM_FI_DEV_GPU_TEMP", "0"))
    row = one(parsed.frames[SAMPLES])
    assert (row["memory_temperature_c"], row["temperature_c"]) == (None, 0.0)


def test_quirk_09_an_absent_series_is_no_zero(parse):
    row = one(parse("dcgm-exporter", line("DCGM_FI_DEV_GPU_TEMP", "40")).frames[SAMPLES])
    assert "throttle_power_cap_ns" not in row
    assert "pcie_replay_count" not in row


def test_quirk_10_xid_gauge_is_sticky(parse):
    points = [(100.0, "0"), (110.0, "0"), (120.0, "79"), (130.0, "79"), (140.0, "79"), (150.0, "31")]
    events = parse("prometheus", matrix("DCGM_FI_DEV_XID_ERRORS", *points)).frames[EVENTS]
    assert events.select("kind", "code").rows() == [("xid_last", 0), ("xid", 79), ("xid", 31)]
    assert events["occurred_at"][1] == dt.datetime.fromtimestamp(120, dt.UTC)
    standing = parse("dcgm-exporter", line("DCGM_FI_DEV_XID_ERRORS", "43")).frames[EVENTS]
    assert standing.select("kind", "code").rows() == [("xid_last", 43)]
    none = parse("dcgm-exporter", line("DCGM_FI_DEV_XID_ERRORS", "0")).frames[EVENTS]
    assert none.select("kind", "code", "severity").rows() == [("xid_last", 0, None)]


def test_quirk_11_energy_keeps_its_raw_value_over_a_restart(parse):
    frame = parse("prometheus", matrix("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", (1.0, "5000"), (2.0, "10"))).frames[
        SAMPLES
    ]
    assert frame.sort("sampled_at")["energy_j"].to_list() == [5.0, 0.01]


def test_quirk_12_energy_that_is_not_supported_is_null_not_zero(parse):
    parsed = parse(
        "dcgm-exporter",
        line("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "9223372036854775794") + line("DCGM_FI_DEV_POWER_USAGE", "70"),
    )
    assert one(parsed.frames[SAMPLES])["energy_j"] is None


def test_quirk_13_average_and_instantaneous_power_are_two_columns(parse):
    text = line("DCGM_FI_DEV_POWER_USAGE", "300") + line("DCGM_FI_DEV_POWER_USAGE_INSTANT", "355")
    row = one(parse("dcgm-exporter", text).frames[SAMPLES])
    assert (row["power_w"], row["power_instant_w"]) == (300.0, 355.0)


def test_quirk_14_power_above_the_limit_is_kept(parse):
    text = line("DCGM_FI_DEV_POWER_USAGE", "599.7") + line("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "400")
    row = one(parse("dcgm-exporter", text).frames[SAMPLES])
    assert (row["power_w"], row["power_limit_w"]) == (599.7, 400.0)


def test_quirk_15_amd_energy_in_an_unknown_unit_is_refused(parse):
    def metric(unit: str) -> str:
        return json.dumps([{"gpu": 0, "energy": {"total_energy_consumption": {"value": 12.5, "unit": unit}}}])

    assert one(parse("amd-smi", metric("J")).frames[SAMPLES])["energy_j"] == 12.5
    assert one(parse("amd-smi", metric("uJ")).frames[NULLS])["reason"] == "unknown_unit"


def test_quirk_16_totals_over_links_do_not_pass_for_a_link(parse):
    links = parse("dcgm-exporter", line("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "0")).frames[LINKS]
    assert one(links)["counter"] == "replay_all_links"
    links = parse("dcgm-exporter", line("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L7", "3")).frames[LINKS]
    assert (one(links)["counter"], one(links)["link_index"], one(links)["value"]) == ("replay", 7, 3)
    links = parse("dcgm-exporter", line("DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", "2", ',nvlink="11"')).frames[LINKS]
    assert (one(links)["counter"], one(links)["link_index"]) == ("rcv_errors", 11)


def test_quirk_17_saturated_counters_keep_their_maximum(parse):
    text = f"GPU 0: Tesla V100 (UUID: {GPU})\n\t Link 0: CRC Errors: 65535\n"
    assert one(parse("nvidia-smi", text).frames[LINKS])["value"] == 65535


def test_quirk_18_infiniband_data_counts_words(parse):
    text = "# Port extended counters: Lid 1 port 1\nPortXmitData:....................10\nPortXmitWait:....................7\n"
    links = parse("infiniband", text, device="mlx5_0").frames[LINKS]
    values = dict(links.select("counter", "value").rows())
    assert values == {"port_xmit_data": 10, "port_xmit_bytes": 40, "port_xmit_wait": 7}


def test_quirk_19_bit_error_rates_stay_encoded_under_a_name_that_says_so(parse):
    links = parse("dcgm-exporter", line("DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER", "4095")).frames[LINKS]
    assert (one(links)["counter"], one(links)["value"]) == ("symbol_ber_raw_all_links", 4095)


def test_quirk_20_graphics_active_of_an_instance_stays_with_the_instance(parse):
    text = line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.33", ',GPU_I_PROFILE="3g.20gb",GPU_I_ID="2"')
    row = one(parse("dcgm-exporter", text).frames[SAMPLES])
    assert (row["gpu_uuid"], row["graphics_active_ratio"]) == (f"MIG-{GPU}/2", 0.33)


def test_quirk_21_utilisation_is_unknown_on_mig(parse):
    mig = ',GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"'
    parsed = parse(
        "dcgm-exporter", line("DCGM_FI_DEV_GPU_UTIL", "0", mig) + line("DCGM_FI_DEV_POWER_USAGE", "200", mig)
    )
    assert one(parsed.frames[SAMPLES])["gpu_util_ratio"] is None
    assert one(parsed.frames[NULLS])["reason"] == "unknown_on_mig"


def test_quirk_22_zero_utilisation_keeps_the_power_beside_it(parse):
    row = one(
        parse("dcgm-exporter", line("DCGM_FI_DEV_GPU_UTIL", "0") + line("DCGM_FI_DEV_POWER_USAGE", "146")).frames[
            SAMPLES
        ]
    )
    assert (row["gpu_util_ratio"], row["power_w"]) == (0.0, 146.0)


def test_quirk_23_and_24_pod_labels_leave_no_trace_in_the_key(parse):
    text = line("DCGM_FI_DEV_GPU_TEMP", "40", ',pod="exporter-x",exported_pod="job",pod_uid=""')
    parsed = parse("dcgm-exporter", text + line("DCGM_FI_DEV_POWER_USAGE", "70"))
    row = one(parsed.frames[SAMPLES])
    assert (row["temperature_c"], row["power_w"]) == (40.0, 70.0)
    assert not any("pod" in column for column in row)


@pytest.mark.parametrize(
    "labels",
    [
        f'gpu="0",UUID="{GPU}",Hostname="n1",modelName="NVIDIA L4"',
        f'gpu="0",uuid="{GPU}",hostname="n1",modelName="NVIDIA L4"',
        f'gpu="0",gpu_uuid="{GPU}",hostname="n1",model_name="NVIDIA L4"',
        f'gpu = "0" , UUID = "{GPU}" , Hostname = "n1" , modelName = "NVIDIA L4" ,',
    ],
)
def test_quirk_25_labels_by_any_spelling(parse, labels):
    parsed = parse("dcgm-exporter", f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 40\n")
    row = one(parsed.frames[SAMPLES])
    assert (row["gpu_uuid"], row["node"], row["gpu_index"], row["accelerator_id"]) == (GPU, "n1", 0, "nvidia-l4-24gb")


@pytest.mark.parametrize(
    ("labels", "options", "node"),
    [
        ('Hostname="localhost",instance="n7:9400"', {}, "n7"),
        ('Hostname="3f546054f69d",instance="n7:9400"', {}, "n7"),
        ('Hostname="3f546054f69d",instance="10.0.0.1:9400"', {}, "3f546054f69d"),
        ('instance="10.0.0.1:9400"', {}, "unknown"),
        ('Hostname="n1",instance="n7:9400"', {"node": "told"}, "n1"),
        ('Hostname="3f546054f69d"', {"node": "told"}, "told"),
    ],
)
def test_quirk_26_hostname_that_is_none(parse, labels, options, node):
    text = f'DCGM_FI_DEV_GPU_TEMP{{UUID="{GPU}",{labels}}} 40\n'
    assert one(parse("dcgm-exporter", text, **options).frames[SAMPLES])["node"] == node


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"),
        ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"),
        ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
        ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L12", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L12_TOTAL"),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    ],
)
def test_quirk_27_renamed_fields_are_one_field(old, new):
    rows = metric_map().filter(pl.col("metric").is_in([old, new])).drop("metric")
    assert rows.height == 2
    assert rows.unique().height == 1


def test_quirk_27_every_dcgm_name_stands_under_its_number(shared):
    facts = pl.read_csv(shared / "facts/telemetry_ref/dcgm_field_ids.csv", infer_schema=False)
    mine = metric_map().filter(pl.col("field_id").is_not_null())
    joined = mine.join(facts, left_on="metric", right_on="field_name", how="left", suffix="_fact")
    assert joined.filter(pl.col("field_id") != pl.col("field_id_fact")).height == 0
    assert joined["field_id_fact"].null_count() == 0
    named = facts.filter(pl.col("field_id").is_in(mine["field_id"].unique().to_list()))
    assert set(named["field_name"]) == set(mine["metric"])


@pytest.mark.parametrize("text", ['DCGM_FI_DEV_GPU_TEMP{gpu="3",Hostname="n1"} 40\n'])
def test_quirk_28_and_29_an_index_is_no_identity(parse, text):
    parsed = parse("dcgm-exporter", text)
    assert (parsed.frames, parsed.rejects[0].rule) == ({}, "a GPU is its UUID")


def test_quirk_28_minor_number_is_not_the_index(parse):
    parsed = parse("prometheus", matrix("DCGM_FI_DEV_GPU_TEMP", (1.0, "40"), minor_number="3", device="nvidia3"))
    assert one(parsed.frames[SAMPLES])["gpu_index"] is None


def test_quirk_28_nvidia_smi_without_uuid_is_refused(parse):
    with pytest.raises(ParseError, match="add uuid"):
        parse("nvidia-smi", "timestamp, index, power.draw [W]\n2026/01/01 00:00:00.000, 0, 70.00 W\n")
    with pytest.raises(ParseError, match="by index"):
        parse("nvidia-smi", "# gpu    pwr  gtemp\n# Idx      W      C\n    0     97     45\n")


def test_quirk_30_a_gpu_that_vanished_is_simply_not_there(parse):
    other = GPU.replace("1111", "2222")
    text = matrix("DCGM_FI_DEV_GPU_TEMP", (1.0, "40"), (2.0, "40")).replace(
        '"result": [',
        '"result": ['
        + json.dumps({"metric": {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": other}, "values": [[1.0, "41"]]})
        + ", ",
    )
    frame = parse("prometheus", text).frames[SAMPLES]
    assert frame.filter(pl.col("gpu_uuid") == other).height == 1


@pytest.mark.parametrize(
    "text",
    [
        "[10.5] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
        "[10.5] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n",
        "[10.5] NVRM: GPU at PCI:0000:3b:00.0: GPU has fallen off the bus.\n",
        (
            "[10.4] NVRM: The NVIDIA GPU 0000:3b:00.0\n[10.4] NVRM: (PCI ID: 10de:2330) installed in this system has\n"
            "[10.5] NVRM: fallen off the bus and is not responding to commands.\n"
        ),
    ],
)
def test_quirk_31_fallen_off_the_bus_in_any_form(parse, text):
    row = one(parse("kernel-xid", text, boot_at="2026-11-30T11:00:00Z").frames[EVENTS])
    assert (row["kind"], row["code"], row["device"], row["severity"]) == ("xid", 79, "0000:3b:00", "fatal")
    assert row["occurred_at"] == dt.datetime(2026, 11, 30, 11, 0, 10, 500000, tzinfo=dt.UTC)


def test_quirk_32_a_storm_loses_no_line(parse):
    text = "[Mon Jul 25 16:46:20 2022] NVRM: Xid (PCI:0000:3b:00): 119, Timeout waiting for RPC from GSP!\n" * 3
    events = parse("kernel-xid", text, observed_at="").frames[EVENTS]
    assert events["event_id"].to_list() == ["119", "119#2", "119#3"]


def test_quirk_34_and_35_a_field_that_went_missing_is_null_for_those_points_only(parse):
    both = json.loads(matrix("DCGM_FI_PROF_SM_ACTIVE", (1.0, "0.5")))
    both["data"]["result"] += json.loads(matrix("DCGM_FI_DEV_GPU_TEMP", (1.0, "40"), (2.0, "41")))["data"]["result"]
    frame = parse("prometheus", json.dumps(both)).frames[SAMPLES].sort("sampled_at")
    assert frame["sm_active_ratio"].to_list() == [0.5, None]


def test_quirk_36_nvidia_smi_that_failed_is_said_so(parse):
    with pytest.raises(ParseError, match="nvidia-smi itself failed"):
        parse("nvidia-smi", "Failed to initialize NVML: Unknown Error\n")


def test_quirk_37_a_line_keeps_the_time_it_carries(parse):
    text = line("DCGM_FI_DEV_GPU_TEMP", "40 1700000000123")
    assert one(parse("dcgm-exporter", text).frames[SAMPLES])["sampled_at"] == dt.datetime.fromtimestamp(
        1700000000.123, dt.UTC
    )


def test_quirk_38_equal_values_at_two_times_are_two_readings(parse):
    frame = parse("prometheus", matrix("DCGM_FI_DEV_GPU_TEMP", (1.0, "40"), (2.0, "40"))).frames[SAMPLES]
    assert frame.height == 2


def test_quirk_39_an_answer_without_series_is_a_gap(parse):
    text = "# HELP DCGM_FI_DEV_GPU_TEMP t\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
    row = one(parse("dcgm-exporter", text, node="n1").frames[NULLS])
    assert (row["device"], row["column_name"], row["reason"], row["from_at"]) == ("*", "*", "no_series", NOON)


def test_quirk_40_two_scrapes_without_times_are_not_two_readings(parse):
    scrape = "# HELP DCGM_FI_DEV_GPU_TEMP t\n" + line("DCGM_FI_DEV_GPU_TEMP", "40")
    parsed = parse("dcgm-exporter", scrape + scrape.replace("40", "45"))
    assert one(parsed.frames[SAMPLES])["temperature_c"] == 40.0
    assert [r.rule for r in parsed.rejects] == ["one value for a series and instant"]
    twice = parse("dcgm-exporter", line("DCGM_FI_DEV_GPU_TEMP", "40") * 2)
    assert (one(twice.frames[SAMPLES])["temperature_c"], len(twice.rejects)) == (40.0, 1)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("N/A", "not_supported"),
        ("[N/A]", "not_supported"),
        ("[Not Supported]", "not_supported"),
        ("[Unknown Error]", "unknown_error"),
        ("[Insufficient Permissions]", "no_permission"),
        ("[Requested functionality has been deprecated]", "deprecated"),
        ("[GPU is lost]", "gpu_is_lost"),
        ("gibberish", "unreadable"),
    ],
)
def test_quirk_41_words_instead_of_numbers(parse, cell, reason):
    text = f"timestamp, uuid, power.draw [W], temperature.gpu\n2026/01/01 00:00:00.000, {GPU}, {cell}, 40\n"
    parsed = parse("nvidia-smi", text)
    row = one(parsed.frames[SAMPLES])
    assert (row["power_w"], row["temperature_c"]) == (None, 40.0)
    why = one(parsed.frames[NULLS])
    assert (why["column_name"], why["reason"], why["raw_value"]) == ("power_w", reason, cell)


def test_quirk_41_hex_pstate_and_flags(parse):
    text = (
        "timestamp, uuid, pstate, clocks_throttle_reasons.active, remapped_rows.pending, gpu_recovery_action\n"
        f"2026/01/01 00:00:00.000, {GPU}, P2, 0x0000000000000004, Yes, Drain and Reset\n"
    )
    row = one(parse("nvidia-smi", text).frames[SAMPLES])
    assert (row["performance_state"], row["event_reasons"]) == (2, 4)
    assert (row["remap_pending"], row["recovery_action"]) == (1, 4)


def test_quirk_42_mib_are_turned_into_bytes_one_by_one(parse):
    text = (
        f"timestamp, uuid, memory.total [MiB], memory.used [MiB]\n2026/01/01 00:00:00.000, {GPU}, 81559 MiB, 479 MiB\n"
    )
    row = one(parse("nvidia-smi", text).frames[SAMPLES])
    assert (row["memory_total_bytes"], row["memory_used_bytes"]) == (81559 * 2**20, 479 * 2**20)


def test_quirk_43_an_elided_line_is_refused_and_the_rest_is_read(parse):
    text = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",...,} 40\n' + line("DCGM_FI_DEV_GPU_TEMP", "41") + "garbage\n"
    parsed = parse("dcgm-exporter", text)
    assert one(parsed.frames[SAMPLES])["temperature_c"] == 41.0
    assert [(r.rule, r.locator) for r in parsed.rejects] == [
        ("the line is valid exposition", "line 1"),
        ("the line is valid exposition", "line 3"),
    ]


def test_quirk_43_a_label_value_may_hold_quotes_braces_and_commas(parse):
    text = line("DCGM_FI_DEV_GPU_TEMP", "41", r',pod="a,UUID=\"GPU-x\"} 7"')
    assert one(parse("dcgm-exporter", text).frames[SAMPLES])["gpu_uuid"] == GPU


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("DCGM_FI_DEV_SUPPORTED_CLOCKS", "1215,1410"),
        ("DCGM_FI_DEV_MIG_CI_INFO", "<<<NULL>>>"),
        ("DCGM_FI_DEV_MIG_ATTRIBUTES", "0"),
        ("DCGM_FI_DEV_CLOCKS_SUPPORTED", "binary"),
    ],
)
def test_quirk_44_a_field_that_is_no_number_costs_nothing_but_itself(parse, field, value):
    parsed = parse("dcgm-exporter", line(field, value) + line("DCGM_FI_DEV_GPU_TEMP", "40"))
    row = one(parsed.frames[SAMPLES])
    assert row["temperature_c"] == 40.0
    assert not [
        c
        for c, v in row.items()
        if c not in ("temperature_c", "gpu_index") and isinstance(v, (int, float)) and v is not False
    ]
    assert parsed.rejects == []
    assert field not in set(table("metrics.csv")["metric"])


def test_quirk_50_an_idle_pcie_link_and_a_fast_fan_are_kept(parse):
    text = f"timestamp, uuid, pcie.link.gen.current, fan.speed [%]\n2026/01/01 00:00:00.000, {GPU}, 1, 117 %\n"
    row = one(parse("nvidia-smi", text).frames[SAMPLES])
    assert (row["pcie_link_generation"], row["fan_speed_ratio"]) == (1, pytest.approx(1.17))


def test_quirk_51_only_the_first_amd_partition_has_sensors(parse):
    def part(number: int, watts: int) -> dict[str, object]:
        return {
            "gpu": number,
            "bus": {"bdf": "0000:c8:00.0"},
            "partition": {"compute_partition": "CPX", "partition_id": number},
            "power": {"socket_power": {"value": watts, "unit": "W"}},
            "usage": {"gfx_activity": {"value": 50, "unit": "%"}},
        }

    parsed = parse("amd-smi", json.dumps([part(0, 500), part(1, 0)]), node="n1")
    samples = parsed.frames[SAMPLES].sort("gpu_index")
    assert samples["power_w"].to_list() == [500.0, None]
    assert samples["gpu_util_ratio"].to_list() == [0.5, 0.5]
    assert one(parsed.frames[NULLS])["reason"] == "board_scope"


def test_quirk_52_zero_is_a_reading(parse):
    row = one(
        parse("dcgm-exporter", line("DCGM_FI_DEV_GPU_UTIL", "0") + line("DCGM_FI_PROF_SM_ACTIVE", "0")).frames[SAMPLES]
    )
    assert (row["gpu_util_ratio"], row["sm_active_ratio"]) == (0.0, 0.0)
