"""What the inputs share, refusals, personal data, and back-fill from a Prometheus server."""

from __future__ import annotations

import datetime as dt
import json
import urllib.parse

import pytest
from telemetry_rows import NOON, one

from sources.base import FetchError, ParseError, Response
from sources.http_errors import StatusError
from sources.registry import source_named
from sources.telemetry_inputs.context import table
from sources.telemetry_inputs.prometheus_range import Asking, back_fill, chunks

SAMPLES, EVENTS, LINKS = "telemetry.gpu_samples", "telemetry.gpu_events", "telemetry.link_counters"
GPU = "GPU-11111111-2222-3333-4444-555555555555"
NAMES = [
    "dcgm-exporter", "prometheus", "nvidia-smi", "infiniband", "roce", "kernel-xid", "redfish", "amd-smi", "rocm-smi",
    "npu-smi",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_web_page_and_empty_file_are_refused(parse, name):
    with pytest.raises(ParseError, match="web page"):
        parse(name, "<!DOCTYPE html><html><body>503</body></html>")
    for text in ("", " \n\n"):
        with pytest.raises(ParseError, match="the file is empty; take the capture again"):
            parse(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dcgm-exporter", f'DCGM_FI_DEV_GPU_TEMP{{UUID="{GPU}"}} 40\n'),
        ("nvidia-smi", f"uuid, temperature.gpu\n{GPU}, 40\n"),
        ("nvidia-smi", f"GPU 0: NVIDIA H100 (UUID: {GPU})\n\t Link 0: 26.562 GB/s\n"),
        ("infiniband", "# Port extended counters: Lid 1 port 1\nPortXmitWait:....................7\n"),
        ("roce", "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0\n"),
        ("redfish", '{"@odata.type": "#Power.v1_5_0.Power", "PowerControl": [{"MemberId": "0", "PowerConsumedWatts": 1}]}'),
        ("amd-smi", '{"card0": {"PCI Bus": "0000:07:00.0"}}'),
    ],
)  # fmt: skip
def test_without_a_time_the_call_must_say_when(parse, name, text):
    assert parse(name, text).frames
    with pytest.raises(ParseError, match="--observed-at"):
        parse(name, text, observed_at="")


@pytest.mark.parametrize("name", ["redfish", "amd-smi", "roce", "prometheus"])
def test_cut_json_is_refused(parse, name):
    with pytest.raises(ParseError, match="JSON"):
        parse(name, '{"status": "success", "data": {"resul')


def test_other_documents_are_refused(parse):
    with pytest.raises(ParseError, match="none of its metrics"):
        parse("dcgm-exporter", "go_goroutines 7\n")
    with pytest.raises(ParseError, match="Redfish Power or EnvironmentMetrics document was due"):
        parse("redfish", '{"@odata.type": "#Thermal.v1_0_0.Thermal"}')
    with pytest.raises(ParseError, match="neither rocm-smi"):
        parse("amd-smi", "[1, 2]")
    with pytest.raises(ParseError, match="no table of npu-smi"):
        parse("npu-smi", "| 0 | x |\n")
    with pytest.raises(ParseError, match="nvidia_smi_log"):
        parse("nvidia-smi", "<other/>")
    with pytest.raises(ParseError, match="cut or broken"):
        parse("nvidia-smi", "<nvidia_smi_log><gpu>")
    with pytest.raises(ParseError, match="the query failed: bad_data"):
        parse("prometheus", '{"status": "error", "error": "bad_data"}')
    with pytest.raises(ParseError, match="holds names only"):
        parse("prometheus", '{"status": "success", "data": ["up"]}')


def test_xml_reads_no_entity(parse, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    text = (
        f'<!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file://{secret}">]><nvidia_smi_log><gpu id="0">'
        f"<product_name>&x;</product_name><uuid>{GPU}</uuid><fan_speed>10 %</fan_speed></gpu></nvidia_smi_log>"
    )
    assert "s3cret" not in str(parse("nvidia-smi", text).frames)


def test_personal_data_is_stripped_from_messages(parse):
    text = (
        "[Mon Jul 25 16:46:04 2022] NVRM: Xid (PCI:0000:3b:00): 31, mail a.b@example.org at 10.1.2.3 in /home/alice/x\n"
    )
    message = one(parse("kernel-xid", text).frames[EVENTS])["message"]
    assert message == "NVRM: Xid (PCI:0000:3b:00): 31, mail <email> at <ip> in /home/<user>/x"


def test_options_reach_the_rows(parse):
    row = one(
        parse("dcgm-exporter", f'DCGM_FI_DEV_GPU_TEMP{{UUID="{GPU}"}} 40\n', cluster="c1", node="n9").frames[SAMPLES]
    )
    assert (row["cluster"], row["node"], row["sampled_at"], row["date"]) == ("c1", "n9", NOON, dt.date(2026, 11, 30))


def test_utc_offset_of_local_stamps(parse):
    text = f"timestamp, uuid, temperature.gpu\n2026/01/01 01:30:00.000, {GPU}, 40\n"
    row = one(parse("nvidia-smi", text, utc_offset="+02:00").frames[SAMPLES])
    assert row["sampled_at"] == dt.datetime(2025, 12, 31, 23, 30, tzinfo=dt.UTC)
    with pytest.raises(ParseError, match="utc_offset"):
        parse("nvidia-smi", text, utc_offset="CEST")


def test_csv_log_of_many_lines_with_repeated_header_and_cut_line(parse):
    header = "timestamp, uuid, power.draw [W]\n"
    body = "".join(f"2026/01/01 00:00:{s:02d}.000, {GPU}, {s}.5 W\n" for s in range(60))
    parsed = parse("nvidia-smi", header + body + header + "2026/01/01 00:01:00.0")
    assert parsed.frames[SAMPLES]["power_w"].sum() == sum(s + 0.5 for s in range(60))
    assert [r.rule for r in parsed.rejects] == ["as many cells as the header"]


def test_plain_text_of_nvidia_smi(parse):
    text = f"""==============NVSMI LOG==============

Timestamp                                              : Tue Jul 14 08:12:38 2026
Driver Version                                         : 590.48.01
CUDA Version                                           : 13.1

Attached GPUs                                          : 1
GPU 00000000:00:09.0
    Product Name                                       : NVIDIA H100 80GB HBM3
    GPU UUID                                           : {GPU}
    PCI
        GPU Link Info
            PCIe Generation
                Current                                : 5
        Replays Since Reset                            : 9
    Clocks Event Reasons
        Idle                                           : Not Active
        SW Power Cap                                   : Active
        HW Slowdown                                    : Active
            HW Thermal Slowdown                        : Active
    FB Memory Usage
        Used                                           : 12 MiB
    ECC Errors
        Volatile
            SRAM Correctable                           : 1
            DRAM Correctable                           : 2
    GPU Power Readings
        Average Power Draw                             : 69.85 W
    Module Power Readings
        Average Power Draw                             : N/A
"""
    parsed = parse("nvidia-smi", text)
    row = one(parsed.frames[SAMPLES])
    assert row["sampled_at"] == dt.datetime(2026, 7, 14, 8, 12, 38, tzinfo=dt.UTC)
    assert (row["power_w"], row["module_power_w"], row["pcie_replay_count"]) == (69.85, None, 9)
    assert (row["event_reasons"], row["ecc_corrected_count"]) == (0x4 | 0x8 | 0x40, 3)
    assert (row["memory_used_bytes"], row["accelerator_id"]) == (12 * 2**20, "nvidia-h100-sxm5-80gb")
    assert one(parsed.frames["telemetry.inventory"])["driver"] == "590.48.01"


def test_sxid_and_kmsg_lines(parse):
    text = "4,10,5000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)\n"
    row = one(parse("kernel-xid", text, boot_at="2026-11-30T00:00:00Z").frames[EVENTS])
    assert (row["kind"], row["code"], row["link_index"], row["severity"]) == ("sxid", 12028, 32, "warning")
    assert (row["device"], row["occurred_at"]) == ("0000:c1:00", dt.datetime(2026, 11, 30, 0, 0, 5, tzinfo=dt.UTC))


def test_journal_lines_with_iso_times(parse):
    text = "2026-11-30T10:00:00.250000+0100 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 94, pid=7, name=python3, Contained\n"
    row = one(parse("kernel-xid", text, observed_at="").frames[EVENTS])
    assert row["occurred_at"] == dt.datetime(2026, 11, 30, 9, 0, 0, 250000, tzinfo=dt.UTC)
    assert (row["pid"], row["process_name"], row["severity"]) == (7, "python3", "warning")


def test_catalogue_agrees_with_the_facts(shared):
    import polars as pl

    facts = pl.read_csv(shared / "facts/telemetry_ref/xid_catalog.csv", infer_schema=False)
    mine = table("xid_actions.csv")
    joined = facts.join(mine, left_on="xid", right_on="code", how="left").filter(pl.col("xid") != "45")
    assert joined["name"].null_count() == 0
    assert joined.filter(pl.col("immediate_action").ne_missing(pl.col("action"))).height == 0
    severities = dict(mine.select("code", "severity").rows())
    assert [severities[c] for c in ("13", "31", "43", "45", "63", "94", "154")] == [
        "warning", "warning", "info", "warning", "info", "warning", "info",
    ]  # fmt: skip
    assert [severities[c] for c in ("48", "74", "79", "95", "119", "149", "162")] == [
        "error", "error", "fatal", "error", "error", "error", None,
    ]  # fmt: skip


def test_infiniband_folder_gives_the_same_bytes_every_time(tmp_path):
    for host in ("a", "b"):
        port = tmp_path / host / "mlx5_0" / "ports" / "1"
        (port / "counters").mkdir(parents=True)
        (port / "counters" / "symbol_error").write_text("3\n")
        (port / "link_layer").write_text("Ethernet\n")
    source = source_named("infiniband")
    first, second = source.read([tmp_path], {"observed_at": NOON.isoformat()})
    assert (first.url, second.url, first.sha256()) == ("file:a", "file:b", second.sha256())
    links = source.parse(first).frames[LINKS]
    row = one(links, counter="symbol_error")
    assert (row["device"], row["link_kind"], row["link_index"], row["value"]) == ("mlx5_0", "roce", 1, 3)
    (alone,) = source.read([tmp_path / "a" / "mlx5_0"], {"observed_at": NOON.isoformat()})
    assert source.parse(alone).frames[LINKS].height == 1


def test_chunks_cover_a_range_and_begin_where_the_one_before_ended():
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    spans = list(chunks(start, start + dt.timedelta(seconds=250), 100, 30))
    seconds = [tuple(int((at - start).total_seconds()) for at in span) for span in spans]
    assert seconds == [(0, 90), (90, 180), (180, 240)]  # 250 s is exclusive and no multiple of 30
    assert list(chunks(start, start, 100, 30)) == []
    (one_point,) = chunks(start, start + dt.timedelta(seconds=30), 100, 30)
    assert one_point == (start, start)
    with pytest.raises(FetchError, match="step"):
        list(chunks(start, start, 100, 0))


class FakeWeb:
    """Answers range queries with one series and keeps the queries."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def get(self, url, *, params=None, headers=None, conditional=True, max_bytes=None):
        self.asked.append(dict(params))
        series = {
            "metric": {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": GPU},
            "values": [[float(len(self.asked)), "40"]],
        }
        body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}).encode()
        return Response(f"{url}?{urllib.parse.urlencode(params)}", 200, body, "application/json", NOON)


def test_back_fill_asks_in_bounded_chunks():
    web = FakeWeb()
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    asking = Asking("http://u:p@prom:9090/", 60, "DCGM_FI_DEV_GPU_TEMP", meta={"cluster": "c7"})
    payloads = list(back_fill(web, asking, start, start + dt.timedelta(hours=2)))
    assert [(a["start"], a["end"], a["step"]) for a in web.asked] == [
        ("2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00", "60"),
        ("2026-01-01T01:00:00+00:00", "2026-01-01T01:59:00+00:00", "60"),
    ]
    assert {p.stream for p in payloads} == {"prom:9090"}
    row = one(source_named("prometheus").parse(payloads[0]).frames[SAMPLES])
    assert (row["temperature_c"], row["cluster"]) == (40.0, "c7")


def test_a_chunk_that_is_too_much_for_the_server_is_asked_in_halves():
    class Small(FakeWeb):
        def get(self, url, *, params=None, **others):
            span = [dt.datetime.fromisoformat(params[name]) for name in ("start", "end")]
            if span[1] - span[0] > dt.timedelta(minutes=20):
                raise StatusError("HTTP 422, query processing would load too many samples", 422)
            return super().get(url, params=params, **others)

    web = Small()
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    list(back_fill(web, Asking("http://prom", 60), start, start + dt.timedelta(minutes=61)))
    told = [tuple(dt.datetime.fromisoformat(a[n]).strftime("%H:%M") for n in ("start", "end")) for a in web.asked]
    assert told == [("00:00", "00:15"), ("00:15", "00:30"), ("00:30", "00:45"), ("00:45", "01:00")]


def test_an_xid_between_two_chunks_is_an_event_of_the_second():
    class Xid(FakeWeb):
        def get(self, url, *, params=None, **others):
            points = [[float(t), "79" if t > 60 else "0"] for t in (0, 60, 120, 180)]
            low, high = (dt.datetime.fromisoformat(params[name]).timestamp() for name in ("start", "end"))
            series = {"metric": {"__name__": "DCGM_FI_DEV_XID_ERRORS", "UUID": GPU}}
            series["values"] = [p for p in points if low <= p[0] <= high]
            body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}).encode()
            return Response(f"{url}?{urllib.parse.urlencode(params)}", 200, body, "application/json", NOON)

    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    payloads = list(back_fill(Xid(), Asking("http://prom", 60), start, start + dt.timedelta(seconds=240), chunk_s=60))
    source = source_named("prometheus")
    events = [source.parse(p).frames.get(EVENTS) for p in payloads]
    told = [e.select("kind", "code").rows() if e is not None else [] for e in events]
    assert told == [[("xid_last", 0)], [("xid_last", 0), ("xid", 79)], [("xid_last", 79)]]


def test_prometheus_is_off_until_the_server_is_named(monkeypatch):
    source = source_named("prometheus")
    monkeypatch.delenv("ALMANAC_PROMETHEUS_URL", raising=False)
    assert "ALMANAC_PROMETHEUS_URL" in source.off_reason
    assert list(source.fetch(FakeWeb())) == []
    monkeypatch.setenv("ALMANAC_PROMETHEUS_URL", "http://prom:9090")
    assert source.off_reason == ""
    web = FakeWeb()
    assert len(list(source.fetch(web))) == len(web.asked) == 1


def test_answers_saved_one_by_one_make_one_row(tmp_path):
    for metric, value in (("DCGM_FI_DEV_GPU_TEMP", "40"), ("DCGM_FI_DEV_POWER_USAGE", "70")):
        series = {"metric": {"__name__": metric, "UUID": GPU}, "value": [100.0, value]}
        answer = {"status": "success", "data": {"resultType": "vector", "result": [series]}}
        (tmp_path / f"{metric}.json").write_text(json.dumps(answer))
    source = source_named("prometheus")
    (payload,) = source.read([tmp_path], {})
    row = one(source.parse(payload).frames[SAMPLES])
    assert (row["temperature_c"], row["power_w"]) == (40.0, 70.0)


def test_syslog_lines_take_the_year_before_they_were_read(parse):
    text = (
        "Dec 31 23:59:58 n7 kernel: [12.5] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python3, MMU Fault\n"
        "Jan  2 01:00:00 n7 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python3, MMU Fault\n"
    )
    events = parse("kernel-xid", text, observed_at="2026-01-03T00:00:00Z", utc_offset="+01:00").frames[EVENTS]
    assert events["occurred_at"].to_list() == [
        dt.datetime(2025, 12, 31, 22, 59, 58, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 2, 0, 0, 0, tzinfo=dt.UTC),
    ]
    assert events["node"].to_list() == ["n7", "n7"]
    assert events["message"][1].startswith("NVRM: Xid")


def test_a_metrics_page_is_read_by_prometheus_too(parse):
    row = one(parse("prometheus", f'DCGM_FI_DEV_GPU_TEMP{{UUID="{GPU}"}} 40\n').frames[SAMPLES])
    assert row["temperature_c"] == 40.0


def environment(**given):
    document = {
        "@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
        "@odata.id": "/redfish/v1/Chassis/HGX_GPU_3/EnvironmentMetrics",
        "PowerWatts": {"Reading": 374.5},
        "EnergykWh": {"Reading": 2.5},
        "PowerLimitWatts": {"SetPoint": 650, "AllowableMax": 700, "ControlMode": "Automatic"},
    }
    return json.dumps(document | given)


def test_environment_metrics_of_a_newer_controller(parse):
    row = one(parse("redfish", environment(), node="n1").frames["telemetry.power_readings"])
    assert (row["scope"], row["device"], row["node"]) == ("chassis", "n1/HGX_GPU_3/environment", "n1")
    assert (row["power_w"], row["power_limit_w"], row["power_capacity_w"]) == (374.5, 650.0, 700.0)
    assert row["energy_j"] == 9e6  # 2.5 kWh
    joules = one(parse("redfish", environment(EnergyJoules={"Reading": 9_000_123})).frames["telemetry.power_readings"])
    assert joules["energy_j"] == 9_000_123.0
    off = environment(PowerLimitWatts={"SetPoint": 650, "ControlMode": "Disabled"}, EnergykWh=None)
    row = one(parse("redfish", off).frames["telemetry.power_readings"])
    assert (row["power_limit_w"], row["energy_j"]) == (None, None)
    with pytest.raises(ParseError, match="no meter"):
        parse("redfish", environment(PowerWatts={"Reading": None}))
