"""Slurm, Kubernetes and mapping directories: hand-checked values, refusals, attempts and stays."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from pathlib import Path

import polars as pl
import pytest

from assets.jobs import derive, merge_snapshot, name_devices, number_attempts
from sources.base import ParseError
from sources.jobs import kubernetes, mapping, slurm
from sources.jobs.values import expand_nodes
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW = "2026-04-01T00:00:00Z"


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)


def parsed(source, path: Path, observed_at: str = NOW, **options: str):
    (payload,) = source.read([path], {"observed_at": observed_at, **options})
    return source.parse(payload)


def empty(table: str) -> pl.DataFrame:
    return pl.DataFrame(schema=lake_schema(tables()[table]))


def derived(out, known=empty):
    return derive(out.frames, lambda table: known(table).lazy())


def by_job(frame: pl.DataFrame) -> dict[str, dict]:
    return {r["job_id"]: r for r in frame.to_dicts()}


@pytest.fixture
def exports(shared: Path) -> Path:
    return shared / "data" / "telemetry" / "slurm"


# Real exports -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gcm_sample-sacct-one-multiline.txt", "gcm_sample-sacct-one-multiline-expected.txt"])
def test_records_that_span_lines(exports, name):
    out = parsed(slurm.SOURCE, exports / name)
    jobs = by_job(out.frames["raw.scheduler_jobs"])
    assert list(jobs) == ["201729", "201844"]
    first, second = jobs.values()
    assert (first["state"], first["exit_code"], first["gpus_allocated"], first["nodes_allocated"]) == (
        "failed",
        6,
        1024,
        128,
    )
    assert first["started_at"] - first["submitted_at"] == dt.timedelta(hours=4, minutes=32, seconds=36)
    assert first["elapsed_seconds"] == 79396 == (first["ended_at"] - first["started_at"]).total_seconds()
    assert len(first["node_list"].split(",")) == 128
    assert (second["state"], second["gpus_allocated"], second["time_limit_seconds"]) == ("requeued", 256, 3 * 86_400)
    assert len(second["node_list"].split(",")) == 32
    (reject,) = out.rejects
    assert (reject.rule, reject.locator) == ("step_has_its_job", "200131")


def test_invalid_utf8_and_steps_that_would_count_twice(exports):
    out = parsed(slurm.SOURCE, exports / "gcm_sample-sacct-output-invalid-utf8.txt", time_zone="America/New_York")
    jobs = by_job(out.frames["raw.scheduler_jobs"])
    assert {k: v["gpus_allocated"] for k, v in jobs.items()} == {"3557891": 8, "3557892": 1}
    assert jobs["3557891"]["exit_signal"] == 9
    assert jobs["3557892"]["state"] == "timeout"
    assert jobs["3557892"]["started_at"] == utc(2018, 6, 28, 4, 44, 33)  # 00:44:33 in New York, summer
    assert [r.locator for r in out.rejects] == ["3557893"]


@pytest.mark.parametrize(
    ("name", "job"),
    [("gcm_sample-sacct-output.txt", "8012944_24093"), ("gcm_sample-sacct-running-output.txt", "6539191_195")],
)
def test_exports_of_steps_only_are_refused_once_for_each_job(exports, name, job):
    out = parsed(slurm.SOURCE, exports / name)
    assert out.frames == {}
    assert [(r.rule, r.locator) for r in out.rejects] == [("step_has_its_job", job)]


def test_squeue_without_header(exports):
    jobs = by_job(parsed(slurm.SOURCE, exports / "gcm_sample-squeue-output.txt").frames["raw.scheduler_jobs"])
    assert {k: v["state"] for k, v in jobs.items()} == {
        "45704744": "running", "42953390_320": "running", "42956774_3": "running", "22783212": "pending",
        "42271120_[7-8%1]": "pending",
    }  # fmt: skip
    # --gpus is not in TRES_PER_NODE, only in the allocated resources
    assert [jobs[k]["gpus_allocated"] for k in ("45704744", "42956774_3", "22783212")] == [2, 256, None]
    assert jobs["42271120_[7-8%1]"]["gpus_requested"] == 8 * 20
    assert (jobs["42956774_3"]["elapsed_seconds"], jobs["42956774_3"]["attempt"]) == (299, 6)
    assert jobs["45704744"]["elapsed_seconds"] == 17 * 3600 + 22 * 60 + 49
    assert jobs["22783212"]["state_reason"] == "DependencyNeverSatisfied"
    assert jobs["22783212"]["started_at"] is None


def test_scontrol_names_the_devices(exports):
    out = parsed(slurm.SOURCE, exports / "gcm_shelper_scontrol_some_gpus.txt")
    (job,) = out.frames["raw.scheduler_jobs"].to_dicts()
    assert (job["job_id"], job["raw_job_id"], job["attempt"], job["state"]) == ("30185_28", "30214", 0, "running")
    assert (job["gpus_allocated"], job["cpus_allocated"], job["ended_at"]) == (8, 256, None)
    stays = derived(out)["telemetry.job_gpus"]
    assert stays["gpu_uuid"].to_list() == [f"node1751/{i}" for i in range(4)]
    assert stays["from_at"].unique().to_list() == [utc(2024, 9, 25, 1, 54, 11)]
    assert stays["notes"][0] == "GRES counts 8 devices, IDX lists 4"


def test_xdmod_layout_and_open_states(exports):
    jobs = by_job(parsed(slurm.SOURCE, exports / "xdmod_accounting-logs.log").frames["raw.scheduler_jobs"])
    assert {k: v["state"] for k, v in jobs.items()} == {
        "4103947": "timeout", "4107166": "cancelled", "4107219": "completed", "5692623": "completed",
    }  # fmt: skip
    assert [v["gpus_allocated"] for v in jobs.values()] == [0, 0, 0, 2]
    assert jobs["4107166"]["elapsed_seconds"] == 2 * 86_400 + 22 * 3600 + 3 * 60 + 4
    assert len(jobs["4103947"]["node_list"].split(",")) == 32
    assert jobs["4107166"]["state_reason"] == "CANCELLED by a user"
    open_jobs = by_job(parsed(slurm.SOURCE, exports / "xdmod_non-ended-job-state.log").frames["raw.scheduler_jobs"])
    assert [(v["state"], v["ended_at"]) for v in open_jobs.values()] == [("running", None), ("pending", None)]
    assert open_jobs["3483276"]["started_at"] is None


def test_a_script_is_refused_and_what_it_prints_is_read(exports, tmp_path):
    with pytest.raises(ParseError, match="a script, not an export"):
        parsed(slurm.SOURCE, exports / "ceems_sacct.sh")
    printed = (exports / "ceems_sacct.sh").read_text().split('"""')[1]
    file = tmp_path / "printed.txt"
    file.write_text(printed)
    jobs = by_job(parsed(slurm.SOURCE, file).frames["raw.scheduler_jobs"])
    assert len(jobs) == 12
    assert jobs["1479763"]["started_at"] == utc(2022, 2, 21, 13, 37, 7)  # 14:37:07+0100
    assert [jobs[k]["gpus_allocated"] for k in ("1479763", "1481508", "2009248")] == [8, 0, 0]
    assert jobs["1479763"]["elapsed_seconds"] is None  # 00:49:22 is 2962 s, the raw field says 3000
    assert "disagree" in jobs["1479763"]["notes"]
    assert jobs["2009248"]["ended_at"] is None


def test_sinfo_gives_one_state_a_node(exports):
    rows = parsed(slurm.SOURCE, exports / "gcm_sample-sinfo-output.txt").frames["telemetry.node_states"]
    assert rows.select("node", "state", "reason", "reason_by").rows() == [
        ("node0201", "drained", "replace", "root"), ("node1537", "allocated", None, None),
        ("node4180", "allocated", None, None),
    ]  # fmt: skip
    assert rows["valid_from"][0] == utc(2022, 6, 2, 5, 54, 34)


def test_pod_resources_with_mig_and_time_slices(shared):
    out = parsed(kubernetes.SOURCE, shared / "data/telemetry/k8s/nvidia-pod-resources.json", node="k01")
    stays = derived(out)["telemetry.job_gpus"]
    assert stays.height == 11
    shares = {(r["job_id"], r["gpu_uuid"]): r["share_ratio"] for r in stays.to_dicts()}
    assert shares["ns1/pod11", "GPU-f124aa59-d406-d45b-9481-8fcd694e6c9e"] == 1.0
    assert shares["ns1/pod11", "MIG-2cc993d7-588c-5c28-b454-b3851897e3d7"] == 1.0
    sliced = stays.filter(pl.col("gpu_uuid") == "MIG-4894e267-46d0-557e-b826-500e978d88d1")
    assert sliced["job_id"].to_list() == ["ns2/pod21", "ns2/pod22", "ns3/pod31"]
    assert sliced["share_ratio"].to_list() == [None] * 3
    assert sliced["mig_profile"].unique().to_list() == ["4g.20gb"]
    assert "holds 4 slices" in sliced["notes"][0]


# Written exports ----------------------------------------------------------------------------------------------------


def test_attempts_arrays_and_heterogeneous_parts():
    out = parsed(slurm.SOURCE, FIXTURES / "slurm" / "sacct_attempts.txt", time_zone="Europe/Berlin")
    jobs = derived(out)["telemetry.jobs"]
    assert jobs.select("job_id", "attempt", "state").rows() == [
        ("100", 0, "requeued"), ("100", 1, "node_fail"), ("101_[1-4%2]", 0, "pending"), ("102+1", 0, "cancelled"),
    ]  # fmt: skip
    first, second, array, part = jobs.to_dicts()
    assert (first["gpus_allocated"], first["gpu_type"], first["job_name"], first["project"]) == (
        8,
        "h100",
        "train|big",
        "llm",
    )
    assert (second["gpus_allocated"], second["time_limit_seconds"], first["time_limit_seconds"]) == (8, 86_400, None)
    assert (first["tensor_parallel"], first["config_hash"]) == (4, second["config_hash"])
    assert (array["gpus_requested"], array["gpus_allocated"], array["array_job_id"]) == (6, None, "101")
    assert array["time_limit_seconds"] == 30 * 60
    # Berlin's clocks skipped 02:00-03:00: from 00:30 to 03:30 local are two hours; 7199 s is within a second
    assert (part["ended_at"] - part["started_at"]).total_seconds() == 7200
    assert (part["elapsed_seconds"], part["exit_code"], part["exit_signal"]) == (7199, 1, 15)
    assert part["node_list"] == "rack1n08,rack1n09,rack1n11,rack2n08,rack2n09,rack2n11"
    assert (part["gpus_allocated"], part["notes"]) == (0, "shares of GPUs (gres/shard) only")
    assert [r.rule for r in out.rejects] == ["fields_match_header"]
    assert "too\x1ffew" in out.rejects[0].raw


def test_every_frame_fits_its_table():
    frames = [derived(parsed(slurm.SOURCE, FIXTURES / "slurm" / "sacct_attempts.txt"))]
    frames.append(derived(parsed(kubernetes.SOURCE, FIXTURES / "kubernetes" / "pods.json")))
    frames.append(derived(parsed(mapping.SOURCE, FIXTURES / "job-mapping" / "node7")))
    for table, frame in [pair for f in frames for pair in f.items()]:
        schema = lake_schema(tables()[table])
        assert set(frame.columns) <= set(schema), table
        frame.cast({c: schema[c] for c in frame.columns}, strict=True)


def test_pods():
    out = parsed(kubernetes.SOURCE, FIXTURES / "kubernetes" / "pods.json", cluster="k")
    train, serve = out.frames["telemetry.jobs"].to_dicts()
    assert (train["job_id"], train["state"], train["exit_code"], train["gpus_allocated"]) == (
        "ml/train-0",
        "out_of_memory",
        137,
        8,
    )
    assert (train["queue"], train["project"], train["account"]) == ("big", "llm", "ml")
    assert train["eligible_at"] == utc(2026, 3, 1, 8, 4)
    assert train["ended_at"] == utc(2026, 3, 1, 9, 6)
    assert (serve["gpus_allocated"], serve["state"], serve["ended_at"]) == (None, "running", None)
    assert "mig-1g.5gb" in serve["notes"]
    assert [r.reason for r in out.rejects] == ["no namespace or name in the pod's metadata"]


def test_mapping_directory():
    out = parsed(mapping.SOURCE, FIXTURES / "job-mapping" / "node7")
    stays = derived(out)["telemetry.job_gpus"]
    assert stays.select("job_id", "gpu_uuid", "share_ratio").rows() == [
        ("4711", "node7/0", 1.0), ("4711", "node7/1.0", None), ("4712", "node7/1.0", None),
    ]  # fmt: skip
    assert sorted(r.locator for r in out.rejects) == ["3", "README"]


# Names, windows, attempts, stays ------------------------------------------------------------------------------------


def test_user_names_are_hashed_kept_or_left_out(monkeypatch):
    def names() -> list:
        return parsed(slurm.SOURCE, FIXTURES / "slurm" / "sacct_attempts.txt").frames["raw.scheduler_jobs"][
            "user_name", "user_name_kind"
        ].unique(maintain_order=True).rows()  # fmt: skip

    monkeypatch.delenv("ALMANAC_USER_HASH_KEY", raising=False)
    monkeypatch.delenv("ALMANAC_USER_NAMES", raising=False)
    assert names() == [(None, None)]
    monkeypatch.setenv("ALMANAC_USER_HASH_KEY", "secret")
    wanted = [hmac.new(b"secret", n, hashlib.sha256).hexdigest()[:16] for n in (b"mia", b"noa")]
    assert names() == [(wanted[0], "hash"), (wanted[1], "hash")]
    monkeypatch.setenv("ALMANAC_USER_NAMES", "plain")
    assert names() == [("mia", "plain"), ("noa", "plain")]
    monkeypatch.setenv("ALMANAC_USER_NAMES", "nothing")
    with pytest.raises(ParseError, match="hash, plain or drop"):
        names()


def test_the_scheduler_is_asked_in_bounded_windows():
    call = slurm.sacct_command(utc(2026, 1, 1), utc(2026, 1, 2))
    assert "--starttime=2026-01-01T00:00:00" in call
    assert "--endtime=2026-01-02T00:00:00" in call
    assert {"--duplicates", "--allocations", "--parsable2", "--noconvert"} <= set(call)
    for end in (utc(2026, 1, 1), utc(2026, 1, 9)):
        with pytest.raises(ValueError, match="ask in several"):
            slurm.sacct_command(utc(2026, 1, 1), end)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("n[1-3,05]", "n1,n2,n3,n05"), ("a,b[09-10]", "a,b09,b10"), ("r[1-2]n[1-2]x", "r1n1x,r1n2x,r2n1x,r2n2x"),
        ("n[3-1]", None), ("n[x]", None), ("n[0-999999999]", None),
    ],
)  # fmt: skip
def test_node_lists(nodes, names):
    assert expand_nodes(nodes) == names


def run(job: str, start: dt.datetime | None, attempt: int | None = None) -> dict:
    return {"cluster": "c", "scheduler": "slurm", "job_id": job, "attempt": attempt, "started_at": start}


RUN = {"cluster": pl.String, "scheduler": pl.String, "job_id": pl.String, "attempt": pl.Int64,
       "started_at": pl.Datetime("us", "UTC")}  # fmt: skip


def test_attempts_keep_their_number_across_windows():
    known = pl.DataFrame([run("1", utc(2026, 1, 1), 0), run("2", None, 0), run("3", utc(2026, 1, 1), 4)], RUN)
    raw = pl.DataFrame(
        [run("1", utc(2026, 1, 2)), run("1", utc(2026, 1, 1)), run("2", utc(2026, 1, 3)), run("3", utc(2026, 1, 1)),
         run("4", utc(2026, 1, 5)), run("4", utc(2026, 1, 4)), run("5", None), run("6", utc(2026, 1, 1), 7)],
        RUN,
    )  # fmt: skip
    assert number_attempts(raw, known)["attempt"].to_list() == [1, 0, 0, 4, 1, 0, 0, 7]


def held(job: str, gpu: str, at: dt.datetime, share: float | None = 1.0) -> dict:
    return {"cluster": "c", "job_id": job, "attempt": 0, "gpu_uuid": gpu, "node": "n", "from_at": at, "share_ratio": share,
            "observed_at": at, "scope": "n"}  # fmt: skip


def test_stays_begin_go_on_and_end():
    types = {"share_ratio": pl.Float64}
    first = merge_snapshot(
        pl.DataFrame([held("a", "G0", utc(2026, 1, 1)), held("b", "G1", utc(2026, 1, 1))], schema_overrides=types),
        empty("telemetry.job_gpus"),
    )
    assert first.height == 2
    known = pl.concat(
        [
            empty("telemetry.job_gpus"),
            first.cast({"from_at": pl.Datetime("us", "UTC"), "known_at": pl.Datetime("us", "UTC")}),
        ],
        how="diagonal_relaxed",
    )
    second = merge_snapshot(
        pl.DataFrame([held("a", "G0", utc(2026, 1, 2)), held("c", "G1", utc(2026, 1, 2))], schema_overrides=types),
        known,
    )
    rows = {(r["job_id"], r["gpu_uuid"]): (r["from_at"], r["to_at"]) for r in second.to_dicts()}
    assert rows == {
        ("c", "G1"): (utc(2026, 1, 2), None),
        ("b", "G1"): (utc(2026, 1, 1), utc(2026, 1, 2)),
    }


def test_an_idle_node_ends_every_stay(tmp_path):
    folder = tmp_path / "node7"
    folder.mkdir()
    (folder / "0").write_text("4711\n")
    begun = derived(parsed(mapping.SOURCE, folder, "2026-01-01T00:00:00Z"))["telemetry.job_gpus"]
    known = pl.concat([empty("telemetry.job_gpus"), begun], how="diagonal_relaxed")
    (folder / "0").write_text("")
    ended = derived(
        parsed(mapping.SOURCE, folder, "2026-01-01T06:00:00Z"),
        lambda table: known if table == "telemetry.job_gpus" else empty(table),
    )["telemetry.job_gpus"]
    assert ended.select("job_id", "from_at", "to_at").rows() == [("4711", utc(2026, 1, 1), utc(2026, 1, 1, 6))]


def test_devices_known_by_place_get_the_uuid_of_the_board_that_sat_there():
    inventory = pl.concat(
        [
            empty("telemetry.inventory"),
            pl.DataFrame(
                [
                    {"cluster": "c", "node": "n", "gpu_index": 0, "gpu_uuid": "OLD", "valid_from": utc(2026, 1, 1)},
                    {"cluster": "c", "node": "n", "gpu_index": 0, "gpu_uuid": "NEW", "valid_from": utc(2026, 1, 5)},
                    {"cluster": "c", "node": "n", "gpu_index": 1, "gpu_uuid": "ONE", "valid_from": utc(2026, 1, 5)},
                ]
            ),
        ],
        how="diagonal_relaxed",
    )
    stays = [held("a", "n/0", utc(2026, 1, 2)), held("b", "n/0", utc(2026, 1, 6)), held("c", "n/1", utc(2026, 1, 2)),
             held("d", "n/7", utc(2026, 1, 2)), held("e", "GPU-x", utc(2026, 1, 2))]  # fmt: skip
    out = name_devices(pl.DataFrame(stays), inventory)
    assert dict(out.select("job_id", "gpu_uuid").rows()) == {
        "a": "OLD",
        "b": "NEW",
        "c": "ONE",
        "d": "n/7",
        "e": "GPU-x",
    }
