"""Every capture beside the checkout, with counts and values read off it by hand."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest
from telemetry_rows import NOON, one

from sources.base import ParseError

SAMPLES, LINKS, EVENTS = "telemetry.gpu_samples", "telemetry.link_counters", "telemetry.gpu_events"
INVENTORY, NULLS, POWER = "telemetry.inventory", "telemetry.null_reasons", "telemetry.power_readings"
A100 = "GPU-34319582-d595-d1c7-d1d2-179bcfa61660"
L4 = "GPU-c2f76b33-7953-256e-8f33-1343419b1a1c"


@pytest.fixture
def data(shared):
    return shared / "data" / "telemetry"


def test_dcgm_a100_with_a_mig_instance(load, data):
    (parsed,) = load("dcgm-exporter", data / "dcgm_exporter_prom/a100_sxm4_40gb_and_mig1g5gb.prom")
    samples = parsed.frames[SAMPLES]
    assert samples.height == 2
    board = one(samples, gpu_uuid=A100)
    assert (board["node"], board["gpu_index"], board["parent_gpu_uuid"]) == ("ub20-a100-k8s", 0, None)
    assert (board["power_w"], board["energy_j"]) == (409.692, pytest.approx(319159.391))
    assert (board["sm_clock_mhz"], board["memory_clock_mhz"], board["temperature_c"]) == (1215, 1215, 61.0)
    assert board["memory_temperature_c"] == 69.0
    assert board["memory_used_bytes"] == 4845 * 1024 * 1024
    assert (board["pcie_tx_bytes_per_s"], board["pcie_rx_bytes_per_s"]) == (33011804.0, 97863601.0)
    assert (board["graphics_active_ratio"], board["tensor_active_ratio"]) == (0.995630, 0.929260)
    instance = one(samples, parent_gpu_uuid=A100)
    assert instance["gpu_uuid"] == f"MIG-{A100}/13"
    assert (instance["graphics_active_ratio"], instance["tensor_active_ratio"]) == (0.995687, 0.930433)
    assert (instance["dram_active_ratio"], instance["power_w"], instance["energy_j"]) == (0.800339, None, None)
    assert parsed.rejects == []


def test_dcgm_gb200_excerpt_has_five_link_counters(load, data):
    (parsed,) = load("dcgm-exporter", data / "dcgm_exporter_prom/gb200_nvlink_count_fields_excerpt.prom")
    counters = parsed.frames[LINKS].group_by("counter").len().sort("counter").rows()
    assert counters == [("recovery_successful_all_links", 4), ("xmit_discards_all_links", 1)]
    assert parsed.frames[LINKS]["value"].to_list() == [0] * 5
    board = one(parsed.frames[INVENTORY], gpu_uuid="GPU-2e2b6342-3996-51b9-5480-e20df571e09c")
    assert (board["gpu_name"], board["pci_bus_id"]) == ("NVIDIA GB200", "00000008:01:00.0")
    assert board["accelerator_id"] == "nvidia-gb200-186gb"


def test_dcgm_h100_with_pod_labels(load, data):
    (parsed,) = load("dcgm-exporter", data / "dcgm_exporter_prom/h100_hbm3_x8_pod_labels_580.prom")
    samples = parsed.frames[SAMPLES].sort("gpu_index")
    assert samples["power_w"].to_list() == [113.611, 68.347, 65.709, 67.316, 68.717, 65.742, 67.328, 66.997]
    assert samples["temperature_c"].to_list() == [30.0, 29.0, 26.0, 29.0, 28.0, 26.0, 28.0, 26.0]
    assert samples["gpu_util_ratio"].to_list() == [0.0] * 8
    assert samples["memory_util_ratio"].to_list() == [0.0] * 6 + [None, None]  # the capture ends after the sixth
    assert samples["accelerator_id"].unique().to_list() == ["nvidia-h100-sxm5-80gb"]
    assert parsed.frames[INVENTORY]["driver"].unique().to_list() == ["580.105.08"]


def test_dcgm_l4_scraped_twice(load, data):
    (parsed,) = load("dcgm-exporter", data / "dcgm_exporter_prom/kops_l4_x2_aws_driver580.prom")
    row = one(parsed.frames[SAMPLES], gpu_uuid=L4)
    assert (row["power_w"], row["energy_j"], row["memory_temperature_c"]) == (16.365, pytest.approx(4742.776), None)
    assert row["memory_reserved_bytes"] == 470 * 1024 * 1024
    assert one(parsed.frames[NULLS])["column_name"] == "memory_temperature_c"
    assert len(parsed.rejects) == 1


def test_dcgm_t4(load, data):
    (parsed,) = load("dcgm-exporter", data / "dcgm_exporter_prom/t4_idle_aws_sections.prom")
    row = one(parsed.frames[SAMPLES])
    assert (row["power_w"], row["energy_j"], row["temperature_c"]) == (14.512, pytest.approx(48287.135), 24.0)
    assert (row["memory_temperature_c"], row["dram_active_ratio"]) == (None, 0.000001)


def test_dcgm_sentinel_and_v100(load, data):
    folder = data / "dcgm_exporter_prom"
    (old,) = load("dcgm-exporter", folder / "quickstart_int64_sentinel.prom")
    assert (one(old.frames[SAMPLES])["sm_clock_mhz"], one(old.frames[NULLS])["raw_value"]) == (
        139,
        "9223372036854775794",
    )
    (v100,) = load("dcgm-exporter", folder / "v100_mixed_prof_zero.prom")
    first = one(v100.frames[SAMPLES], gpu_index=0)
    second = one(v100.frames[SAMPLES], gpu_index=1)
    assert (first["dram_active_ratio"], first["power_w"]) == (0.0, None)
    assert (second["power_w"], second["energy_j"]) == (167.362, pytest.approx(129931554.972))
    assert (second["temperature_c"], second["memory_temperature_c"]) == (56.0, 54.0)


def test_nvidia_gpu_exporter_idle_and_load(load, data):
    idle, loaded = load("dcgm-exporter", data / "nvidia_gpu_exporter_prom")
    row = one(loaded.frames[SAMPLES])
    assert (row["power_w"], row["power_instant_w"], row["power_limit_w"]) == (631.95, 625.68, 700.0)
    assert (row["sm_clock_mhz"], row["memory_clock_mhz"], row["graphics_clock_mhz"]) == (1980, 2619, 1980)
    assert (row["gpu_util_ratio"], row["memory_util_ratio"]) == (1.0, 0.11)
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (20780679168, 85520809984)
    assert (row["temperature_c"], row["memory_temperature_c"], row["event_reasons"]) == (59.0, 54.0, 0)
    assert one(idle.frames[SAMPLES])["event_reasons"] == 1
    assert one(loaded.frames[INVENTORY])["gpu_serial"] is None  # masked by its author


def test_ceems_node_power(load, data):
    (parsed,) = load("dcgm-exporter", data / "exporter_prom_other")
    power = parsed.frames[POWER]
    assert (set(parsed.frames), power.height) == ({POWER}, 8)
    node = one(power, device="unknown/pm_counters/node")
    assert (node["scope"], node["power_w"], node["energy_j"], node["node"]) == ("node", 873.0, 1.360621494e09, None)
    dcmi = one(power, device="unknown/ipmi_dcmi/node")
    assert [dcmi[f"power_{x}w"] for x in ("", "min_", "mean_", "max_")] == [49.0, 6.0, 49.0, 304.0]
    assert power.filter(pl.col("scope") == "accelerator").height == 4


def test_prometheus_answers(load, data):
    folder = data / "prometheus_http_api"
    (util,) = load("prometheus", folder / "query_gpu_util_8xh100.json")
    samples = util.frames[SAMPLES]
    assert (samples.height, samples["node"].n_unique(), samples["gpu_util_ratio"].to_list()) == (16, 2, [0.0] * 16)
    assert samples["sampled_at"].unique().to_list() == [dt.datetime.fromtimestamp(1773114089.184, dt.UTC)]
    (power,) = load(
        "prometheus",
        folder / "query_power_mw_4xa100_nvidia_gpu_exporter.json",
        metric="nvidia_gpu_power_usage_milliwatts",
    )
    row = one(power.frames[SAMPLES], gpu_uuid="GPU-e8ba89df-0d52-4693-7098-1b38647e1462")
    assert row["power_w"] == pytest.approx(136.0747816091954)
    assert (row["cluster"], row["node"], row["accelerator_id"]) == ("della", "della-l02g8", "nvidia-a100-pcie-80gb")
    assert power.frames[SAMPLES].height == 4
    with pytest.raises(ParseError, match="no metric name"):
        load("prometheus", folder / "query_power_mw_4xa100_nvidia_gpu_exporter.json")
    with pytest.raises(ParseError, match="lists scrape targets"):
        load("prometheus", folder / "query_pcie_replay_t4.json")
    (together,) = load("prometheus", folder, metric="nvidia_gpu_power_usage_milliwatts")
    assert together.frames[SAMPLES].height == 16 + 4
    assert [(r.locator, r.reason[:32]) for r in together.rejects] == [
        ("query_pcie_replay_t4.json", "the answer lists scrape targets "),
    ]


def test_nvidia_smi_xml(load, data):
    folder = data / "nvidia_smi_xml"
    (a10g,) = load("nvidia-smi", folder / "a10g.xml")
    row = one(a10g.frames[SAMPLES])
    assert row["sampled_at"] == dt.datetime(2023, 4, 24, 16, 11, 51, tzinfo=dt.UTC)
    assert (row["power_w"], row["power_limit_w"], row["pcie_link_width"], row["event_reasons"]) == (25.58, 300.0, 8, 1)
    assert (row["memory_total_bytes"], row["remap_pending"]) == (23028 * 1024 * 1024, 0)
    assert one(a10g.frames[INVENTORY])["gpu_serial"] is None
    (p100,) = load("nvidia-smi", folder / "netdata_tesla-p100.xml")
    assert (one(p100.frames[SAMPLES])["power_w"], one(p100.frames[SAMPLES])["retired_pages"]) == (26.16, 0)
    (t4,) = load("nvidia-smi", folder / "tesla-t4.xml")
    assert (one(t4.frames[SAMPLES])["power_w"], one(t4.frames[SAMPLES])["temperature_c"]) == (26.78, 40.0)
    (rtx,) = load("nvidia-smi", folder / "rtx-3080-v12.xml")
    assert (one(rtx.frames[SAMPLES])["power_w"], one(rtx.frames[SAMPLES])["memory_util_ratio"]) == (22.78, 0.37)
    (gtx,) = load("nvidia-smi", folder / "gtx-1070-ti.xml")
    assert (one(gtx.frames[SAMPLES])["sampled_at"], one(gtx.frames[SAMPLES])["power_w"]) == (NOON, None)
    with pytest.raises(ParseError, match="--observed-at"):
        load("nvidia-smi", folder / "gtx-1070-ti.xml", observed_at="")


def test_nvidia_smi_xml_with_four_mig_instances(load, data):
    (parsed,) = load("nvidia-smi", data / "nvidia_smi_xml/a100-sxm4-v12.xml")
    board = "GPU-513536b6-7d19-9063-b049-1e69664bb298"
    samples = parsed.frames[SAMPLES]
    row = one(samples, gpu_uuid=board)
    assert (samples.height, row["power_w"], row["gpu_util_ratio"]) == (5, 67.03, None)
    parts = samples.filter(pl.col("parent_gpu_uuid") == board).sort("gpu_uuid")
    assert parts["gpu_uuid"].to_list() == [f"MIG-{board}/{gi}/0" for gi in (3, 4, 5, 6)]
    assert parts["memory_total_bytes"].to_list() == [19968 * 1024 * 1024] * 4
    assert parts["power_w"].to_list() == [None] * 4
    assert one(parsed.frames[INVENTORY], gpu_uuid=board)["is_mig_enabled"] is True


def test_nvidia_smi_captures(load, data):
    h100, l40s, windows = load("nvidia-smi", data / "nvidia_smi_captures")
    samples = h100.frames[SAMPLES].sort("sampled_at")
    assert samples["power_w"].to_list() == [69.85, 631.95]
    assert samples["sampled_at"][0] == dt.datetime(2026, 7, 14, 8, 12, 38, 696000, tzinfo=dt.UTC)
    assert samples["pcie_link_generation"].to_list() == [5, 5]
    links = h100.frames[LINKS].sort("link_index")
    assert links["link_index"].to_list() == list(range(18))
    assert links["value"].unique().to_list() == [26562]
    assert l40s.frames[SAMPLES].sort("sampled_at")["power_w"].to_list() == [144.97, 110.23]
    assert l40s.frames[SAMPLES].sort("sampled_at")["throttle_power_cap_ns"].to_list() == [200740215000, 204642816000]
    # This node's clock runs two hours ahead of UTC, which the capture's own UTC time tells.
    first = windows.frames[SAMPLES]["sampled_at"].min()
    assert first == dt.datetime(2026, 6, 22, 21, 4, 18, 311000, tzinfo=dt.UTC)
    assert windows.frames[SAMPLES].sort("sampled_at")["fan_speed_ratio"].to_list() == [0.37, 0.38]


def test_nvlink_listings(load, data):
    folder = data / "nvlink"
    (speeds,) = load("nvidia-smi", folder / "nvidia-smi.nvlink.status.a100.txt")
    assert speeds.frames[LINKS].height == 8 * 12
    assert speeds.frames[LINKS]["value"].unique().to_list() == [25000]
    (h100,) = load("nvidia-smi", folder / "nvidia-smi_nvlink_e_h100.txt")
    assert h100.frames[LINKS].height == 9
    (v100,) = load("nvidia-smi", folder / "nvidia-smi_nvlink_e_v100_saturated_65535.txt")
    links = v100.frames[LINKS]
    sick = "GPU-d9eeee97-c180-66de-23e0-d995387934dc"
    assert one(links, device=sick, link_index=0, counter="crc")["value"] == 65535
    assert one(links, device=sick, link_index=0, counter="replay")["value"] == 148
    assert links.height == (1 + 5 * 3) + (2 + 5 * 3)
    with pytest.raises(ParseError, match="none of nvidia-smi's outputs"):
        load("nvidia-smi", folder / "fabricmanager.log")


def test_infiniband_sysfs(load, data):
    (parsed,) = load("infiniband", data / "infiniband_sysfs")
    links = parsed.frames[LINKS]
    # 21 counters, 25 of 26 hw_counters (lifespan is a setting), 2 in bytes as well, rate, state, phys_state
    assert links.group_by("device").len().sort("device").rows() == [("mlx5_0", 51), ("mlx5_1", 51)]
    second = {"device": "mlx5_1", "link_kind": "infiniband", "link_index": 1}
    assert one(links, counter="link_downed", **second)["value"] == 255
    assert one(links, counter="port_rcv_data", **second)["value"] == 205128687774249
    assert one(links, counter="port_rcv_bytes", **second)["value"] == 820514751096996
    assert one(links, counter="rate_mbit_per_s", **second)["value"] == 400000
    assert one(links, counter="roce_adp_retrans", **second)["value"] == 3


def test_perfquery(load, data):
    folder = data / "infiniband_perfquery"
    (one_port,) = load("infiniband", folder / "0x506b4b03005c2740.out")
    links = one_port.frames[LINKS]
    assert links.height == 24
    assert one(links, counter="port_xmit_discards")["value"] == 20046
    assert one(links, counter="port_xmit_bytes")["value"] == 178791657177235 * 4
    assert one(links, counter="link_downed")["device"] == "0x506b4b03005c2740"
    (two,) = load("infiniband", folder / "0x7cfe9003009ce5b0.out")
    assert two.frames[LINKS].filter(counter="port_xmit_wait").sort("link_index").select(
        "link_index", "value"
    ).rows() == [
        (1, 22730501),
        (2, 36510964),
    ]
    assert [
        p.frames[LINKS].height
        for p in load("infiniband", folder / "0x7cfe9003003b4b96.out", folder / "0x7cfe9003003b4bde.out")
    ] == [24, 24]
    with pytest.raises(ParseError, match="empty"):
        load("infiniband", folder / "0x506b4b0300cc02a6.out")


def test_roce(load, data):
    folder = data / "rdma_roce_ainic"
    (ethtool,) = load("roce", folder / "ethtool_S_enp132s0.txt")
    links = ethtool.frames[LINKS]
    assert one(links, device="enp132s0", counter="octets_rx_ok")["value"] == 75542062581996
    assert one(links, device="enp132s0", counter="frames_rx_pause")["value"] == 0
    assert links.filter(pl.col("counter").str.contains(r"^tx_\d")).height == 0
    (nicctl,) = load("roce", folder / "nicctl_show_port_statistics_j.txt")
    assert nicctl.frames[LINKS].height == 2 * 92
    (rdma,) = load("roce", folder / "rdma_statistic_j.txt")
    assert rdma.frames[LINKS].height == 3 * 42
    assert one(rdma.frames[LINKS], device="ionic_1", counter="req_rx_dup_response")["value"] == 34
    (state,) = load("roce", folder / "rdma_link.txt")
    assert (state.frames[LINKS].height, state.frames[LINKS]["value"].to_list()) == (6, [1] * 6)


def test_kernel_logs(load, data):
    folder = data / "kernel_xid"
    (storm,) = load("kernel-xid", folder / "dmesg_xid119_120_gsp_storm.log", observed_at="")
    assert storm.frames[EVENTS].select("event_id").to_series().to_list() == ["120", "119", "119#2", "119#3"]
    assert storm.frames[EVENTS]["occurred_at"][0] == dt.datetime(2022, 7, 25, 16, 46, 4, tzinfo=dt.UTC)
    (dmesg,) = load("kernel-xid", folder / "gpud_dmesg-with-xid-119.log", observed_at="")
    events = dmesg.frames[EVENTS]
    assert (events.height, events["code"].to_list()) == (5, [119] * 5)
    assert events["gpu_uuid"].unique().to_list() == ["GPU-509665ad-b600-ac93-3616-d754b23d636d"]
    assert events["pid"].to_list() == [2024380, 2024380, 2024380, 1263500, 1240590]
    assert (events["severity"].unique().to_list(), events["action"].unique().to_list()) == (["error"], ["RESET_GPU"])
    (kmsg,) = load("kernel-xid", folder / "gpud_kmsg.1.log")
    assert kmsg.frames[EVENTS].height == 0
    (dev,) = load("kernel-xid", folder / "gpud_xid_lines_dev.log")
    assert (dev.frames[EVENTS].height, len(dev.rejects)) == (39, 4)
    codes = dev.frames[EVENTS].group_by("code").len().sort("code").rows()
    assert codes == [(14, 2), (79, 7), (144, 3), (145, 9), (149, 13), (154, 4), (99999, 1)]
    unknown = one(dev.frames[EVENTS], code=99999)
    assert (unknown["severity"], unknown["action"]) == (None, None)
    with pytest.raises(ParseError, match="boot_at"):
        load("kernel-xid", folder / "gpud_xid_lines_dev.log", observed_at="")


def test_redfish(load, data):
    ceems, dell, hp = load("redfish", data / "redfish")
    row = one(dell.frames[POWER], scope="node")
    assert (row["power_w"], row["power_min_w"], row["power_mean_w"], row["power_max_w"]) == (429, 425, 426, 436)
    assert (row["window_seconds"], row["power_limit_w"], row["power_capacity_w"]) == (60, 348, 1628)
    assert one(dell.frames[POWER], scope="psu")["power_w"] == 203
    assert hp.frames[POWER].sort("device")["power_w"].to_list() == [221, 0, 90]
    # 46 W on average between 55 W and 120 W cannot be: the window goes, the reading stays.
    odd = one(ceems.frames[POWER], device="Chassis-1/control/1")
    assert (odd["power_w"], odd["power_mean_w"], ceems.frames[NULLS].height) == (53, None, 3)


def test_amd(load, data):
    mi100, navi, vega = load("amd-smi", data / "amd_rocm_smi")
    samples = mi100.frames[SAMPLES].sort("gpu_index")
    assert samples["power_w"].to_list() == [39, 37, 35, 39, 39, 40]
    assert samples["temperature_c"].to_list() == [31, 30, 31, 33, 32, 33]
    assert samples["accelerator_id"].unique().to_list() == ["amd-mi100-32gb"]
    assert (one(navi.frames[SAMPLES])["power_w"], one(navi.frames[SAMPLES])["memory_used_bytes"]) == (6, 1572745216)
    board = one(vega.frames[INVENTORY])
    assert (board["gpu_uuid"], board["gpu_serial"]) == ("amd-0x2f048617326b1ea", "692024000810")
    (static,) = load("amd-smi", data / "amd_smi")
    boards = static.frames[INVENTORY]
    assert (set(static.frames), boards.height, boards["parent_gpu_uuid"].null_count()) == ({INVENTORY}, 12, 2)
    assert boards.filter(pl.col("mig_profile") == "CPX")["gpu_uuid"].to_list() == [
        f"amd-unknown-0000:c8:00.0/{i}" for i in range(8)
    ]


def test_npu_smi(load, data):
    (parsed,) = load("npu-smi", data / "npu_smi", node="atlas1")
    samples = parsed.frames[SAMPLES].sort("gpu_index")
    assert samples["power_w"].to_list() == [94.8, 90.5, 90.6, 98.8, 139.7, 95.8, 97.8, 90.8]
    assert samples["gpu_util_ratio"].to_list() == [0, 0, 0, 0, 0.25, 0, 0, 0]
    assert samples["memory_used_bytes"][4] == 21784 * 1024 * 1024
    assert samples["gpu_uuid"][0] == "npu-atlas1-0000:c1:00.0"
    assert parsed.frames[INVENTORY]["accelerator_id"].unique().to_list() == ["huawei-ascend-910b3-64gb"]


def test_power_csvs_are_refused(load, data):
    for name in ("zeus_profile_A40_resnet50_gpu0-1-2-3.csv", "zeus_summary_power_v100.csv"):
        with pytest.raises(ParseError, match="none of nvidia-smi's outputs"):
            load("nvidia-smi", data / "power" / name)
