"""The rest of the captures: Fabric Manager's log, network counters value by value, traces and tables that are refused.

Every file of ../shared/data/telemetry stands in one of these tests (Slurm, Kubernetes and training logs in
tests/efficiency), which the last test here makes sure of.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from telemetry_rows import one

from sources.base import ParseError

EVENTS, LINKS, SAMPLES = "telemetry.gpu_events", "telemetry.link_counters", "telemetry.gpu_samples"
# A published trace or table says of no GPU by its UUID what it did at an instant: none of it is telemetry.
REFUSED = {
    "cluster_traces/acme_cdf_gpu_power_kalos.csv": ("nvidia-smi", "none of nvidia-smi's outputs"),
    "cluster_traces/acme_cdf_gpu_temp_kalos.csv": ("nvidia-smi", "none of nvidia-smi's outputs"),
    "cluster_traces/acme_cdf_server_power.csv": ("nvidia-smi", "none of nvidia-smi's outputs"),
    "cluster_traces/acme_cdf_util_cpu_mem_kalos.csv": ("dcgm-exporter", "none of its 201 lines is a metric"),
    "cluster_traces/acme_cdf_util_gpu_kalos.csv": ("dcgm-exporter", "none of its 201 lines is a metric"),
    "cluster_traces/acme_cluster_summary.csv": ("slurm", "no delimiter found"),
    "cluster_traces/alibaba_dlrm2025_200.csv": ("kubernetes", "not JSON"),
    "cluster_traces/alibaba_genai2026_gpu_duty_cycle_3pods.csv": (
        "dcgm-exporter",
        "none of its 3158 lines is a metric",
    ),
    "cluster_traces/alibaba_openb2023_node_list_300.csv": ("slurm", "no delimiter found"),
    "cluster_traces/alibaba_openb2023_pod_list_300.csv": ("nvidia-smi", "names GPUs by index only"),
    "cluster_traces/alibaba_spot2026_node_info_300.csv": ("slurm", "no delimiter found"),
    "cluster_traces/headers/pai_group_tag_table.header": ("slurm", "no delimiter found"),
    "cluster_traces/headers/pai_instance_table.header": ("slurm", "no delimiter found"),
    "cluster_traces/headers/pai_job_table.header": ("slurm", "no delimiter found"),
    "cluster_traces/headers/pai_machine_metric.header": ("kernel-xid", "no kernel log"),
    "cluster_traces/headers/pai_machine_spec.header": ("nvidia-smi", "none of nvidia-smi's outputs"),
    "cluster_traces/headers/pai_sensor_table.header": ("nvidia-smi", "names GPUs by index only"),
    "cluster_traces/headers/pai_task_table.header": ("slurm", "no delimiter found"),
    "power/zeus_profile_A40_resnet50_gpu0-1-2-3.csv": ("nvidia-smi", "none of nvidia-smi's outputs"),
    "power/zeus_summary_power_v100.csv": ("kernel-xid", "no kernel log"),
    "nvlink/fabricmanager.log": ("nvidia-smi", "none of nvidia-smi's outputs"),
    "infiniband_perfquery/0x506b4b0300cc02a6.out": ("infiniband", "empty"),
    "slurm/ceems_sacct.sh": ("slurm", "a script, not an export"),
}


@pytest.fixture
def data(shared: Path) -> Path:
    return shared / "data" / "telemetry"


@pytest.mark.parametrize(("name", "source", "reason"), [(k, *v) for k, v in REFUSED.items()], ids=list(REFUSED))
def test_what_is_no_telemetry_is_refused_with_its_reason(load, data, name, source, reason):
    with pytest.raises(ParseError, match=reason):
        load(source, data / name)


def test_fabric_manager_tells_of_one_switch_error(load, data):
    (parsed,) = load("kernel-xid", data / "nvlink/fabricmanager.log", observed_at="", utc_offset="-08:00")
    row = one(parsed.frames[EVENTS])
    assert (row["kind"], row["code"], row["link_index"], row["severity"]) == ("sxid", 12028, 61, "warning")
    assert (row["device"], row["event_id"]) == ("0000:86:00", "12028:link61")
    # 15:10:02 on 27 February, eight hours behind UTC
    assert row["occurred_at"] == dt.datetime(2025, 2, 27, 23, 10, 2, tzinfo=dt.UTC)
    assert row["message"].startswith("[ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0")


def test_xid_lines_carry_links_subcodes_and_their_own_gravity(load, data):
    (parsed,) = load("kernel-xid", data / "kernel_xid/gpud_xid_lines_dev.log")
    events = parsed.frames[EVENTS].sort("event_id", "device")
    track = events.filter(code=145, subcode="RLW_SRC_TRACK", device="0008:01:00")
    assert track["link_index"].sort().to_list() == [3, 12, 16]
    assert track["severity"].unique().to_list() == ["warning"]
    assert track["pid"].drop_nulls().to_list() == [11436]
    link = one(events, code=149, device="0018:01:00", link_index=9)
    assert (link["subcode"], link["severity"], link["action"]) == ("NETIR_LINK_EVT", "fatal", "WORKFLOW_NVLINK5_ERR")
    assert one(events, code=149, device="0018:01:00", link_index=3)["severity"] == "warning"  # NETIR_BER_EVENT Nonfatal
    assert events.filter(code=149, subcode="NETIR")["link_index"].null_count() == 4  # "Link -1" is no link
    assert events.filter(code=79)["device"].sort().to_list() == [
        "0000:01:00", "0000:05:00", "0000:05:00", "0000:05:00", "0000:18:00", "0000:18:00", "0000:29:00",
    ]  # fmt: skip


def test_infiniband_ports_value_by_value(load, data):
    (sysfs,) = load("infiniband", data / "infiniband_sysfs", cluster="c1", node="n1")
    links = sysfs.frames[LINKS]
    first = dict(links.filter(device="mlx5_0").select("counter", "value").rows())
    expected = {
        "port_rcv_data": 230539874932483,
        "port_rcv_bytes": 230539874932483 * 4,
        "port_xmit_data": 230442669431839,
        "port_xmit_bytes": 230442669431839 * 4,
        "port_xmit_wait": 2489603687,
        "port_rcv_errors": 14,
        "excessive_buffer_overrun_errors": 15,
        "link_downed": 0,
        "rx_write_requests": 3809045607,
        "rx_dct_connect": 422237,
        "roce_adp_retrans": 3,
        "state": 4,
        "phys_state": 5,
        "rate_mbit_per_s": 400000,
    }
    assert {name: first[name] for name in expected} == expected
    assert "lifespan" not in first
    assert links.select("cluster", "node", "link_kind", "link_index").unique().rows() == [("c1", "n1", "infiniband", 1)]
    folder = data / "infiniband_perfquery"
    quiet, other = load("infiniband", folder / "0x7cfe9003003b4b96.out", folder / "0x7cfe9003003b4bde.out")
    told = dict(quiet.frames[LINKS].select("counter", "value").rows())
    assert (told["port_xmit_data"], told["port_xmit_bytes"]) == (37108676853855, 148434707415420)
    assert (told["multicast_rcv_packets"], told["symbol_error"], told["qp1_dropped"]) == (3732373137, 0, 0)
    told = dict(other.frames[LINKS].select("counter", "value").rows())
    assert (told["port_rcv_data"], told["unicast_rcv_packets"]) == (9752484588300, 29306563974)


def test_roce_cards_value_by_value(load, data):
    folder = data / "rdma_roce_ainic"
    (ethtool,) = load("roce", folder / "ethtool_S_enp132s0.txt")
    assert ethtool.frames[LINKS].height == 111  # 607 lines below the title, 496 of single queues
    told = dict(ethtool.frames[LINKS].select("counter", "value").rows())
    assert (told["frames_rx_ok"], told["octets_tx_ok"], told["rx_packets"]) == (69867940032, 103623222172110, 3116274)
    assert (told["frames_rx_pause"], told["tx_pripause_3_1us_count"], told["frames_rx_bad_fcs"]) == (0, 0, 0)
    (nicctl,) = load("roce", folder / "nicctl_show_port_statistics_j.txt")
    links = nicctl.frames[LINKS]
    for device, frames, octets, symbols in (
        ("42424650-4c32-3530-3330-303439000000", 283924078435, 509011967971912, 7),
        ("42424650-4c32-3434-3530-304430000000", 69867942109, 103623222172110, 0),
    ):
        told = dict(links.filter(device=device, link_index=1).select("counter", "value").rows())
        assert (told["frames_rx_ok"], told["octets_tx_ok"], told["rsfec_ch_symbol_err_cnt"]) == (
            frames,
            octets,
            symbols,
        )
    (rdma,) = load("roce", folder / "rdma_statistic_j.txt")
    told = dict(rdma.frames[LINKS].filter(device="ionic_1").select("counter", "value").rows())
    assert (told["rx_rdma_ucast_bytes"], told["tx_rdma_ucast_pkts"]) == (3087001744, 32852846)
    assert (told["tx_rdma_cnp_pkts"], told["rx_rdma_ecn_pkts"], told["resp_rx_outouf_seq"]) == (0, 0, 0)
    (state,) = load("roce", folder / "rdma_link.txt")
    assert state.frames[LINKS].select("device", "counter").rows()[:2] == [
        ("rocep68s0", "state_is_active"),
        ("rocep68s0", "physical_state_is_up"),
    ]


def test_two_inputs_of_one_chassis_stay_two(load, data):
    (parsed,) = load("redfish", data / "redfish/ceems_chassis_1_power.json", node="n1")
    rows = parsed.frames["telemetry.power_readings"]
    first = one(rows, device="n1/Chassis-1/control/0")
    assert (first["scope"], first["power_w"], first["power_limit_w"], first["power_capacity_w"]) == (
        "chassis",
        344,
        500,
        800,
    )
    assert [first[f"power_{x}_w"] for x in ("min", "mean", "max")] == [271, 319, 489]
    assert first["window_seconds"] == 30 * 60


def test_every_capture_is_loaded_or_refused_by_a_test(data):
    """The names of files and folders that some test speaks of cover the folder."""
    tests = Path(__file__).parents[1]
    told = "\n".join(
        path.read_text() for folder in ("telemetry_inputs", "efficiency") for path in (tests / folder).glob("test_*.py")
    )
    whole = ("infiniband_sysfs", "nvidia_smi_captures", "nvidia_gpu_exporter_prom", "exporter_prom_other", "redfish",
             "amd_rocm_smi", "amd_smi", "npu_smi", "prometheus_http_api")  # fmt: skip
    assert [name for name in whole if name not in told] == []
    files = [path.relative_to(data) for path in data.rglob("*") if path.is_file()]
    assert [str(file) for file in files if file.parts[0] not in whole and file.name not in told] == []
