"""mart.suspects by hand: one node and one link that stand out, and what chance explains."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from marts.tables import database, mart

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def hour(node: str, number: int) -> dict:
    at = START + dt.timedelta(hours=number)
    return {
        "node": node,
        "hour_at": at,
        "date": at.date(),
        "gpu_uuid": f"G-{node}",
        "sample_count": 60,
        "seconds_covered": 3600.0,
    }


def event(node: str, hours: float, kind: str = "xid", code: int | None = 79, **more) -> dict:
    return {"node": node, "occurred_at": START + dt.timedelta(hours=hours), "device": f"G-{node}", "kind": kind, "event_id": f"{hours}",
            "code": code, **more}  # fmt: skip


def counter(link: int, minute: int, delta: int | None) -> dict:
    return {"node": "n0", "sampled_at": START + dt.timedelta(minutes=minute), "device": "G-n0", "link_kind": "nvlink", "link_index": link,
            "counter": "replay", "value": 0, "delta": delta, "date": START.date()}  # fmt: skip


NODES = [f"n{i}" for i in range(10)]
HOURS = [hour(n, h) for n in NODES for h in range(10)]


def rows(kind: str, **tables) -> list[dict]:
    found = [r for r in mart(database(**tables), "suspects") if r["kind"] == kind]
    return sorted(found, key=lambda r: r["place"])


def test_a_node_that_fails_again_and_again():
    # nine incidents on n3 and one on n5: ten on 100 node-hours, one expected for each node of ten hours
    events = [event("n3", n) for n in range(9)] + [event("n5", 2)]
    # the same minute again, an application's fault and a return count for nothing
    events += [event("n3", 0.05), event("n7", 1, code=31), event("n7", 2, kind="returned", code=None)]
    out = rows("node", telemetry__gpu_hours=HOURS, telemetry__gpu_events=events)
    first, second = out[0], out[1]
    assert (first["node"], first["incidents"], first["expected"], first["excess_ratio"]) == ("n3", 9, 1.0, 9.0)
    evidence = 9 * math.log(9) - 8
    assert first["evidence"] == pytest.approx(evidence, abs=1e-6)
    assert first["chance_ratio"] == pytest.approx(10 * math.exp(-evidence), rel=1e-6)
    assert (first["is_suspect"], first["what"], first["others"]) == (True, "gpu_bus", 10)
    assert (second["node"], second["incidents"], second["evidence"], second["is_suspect"]) == ("n5", 1, 0, False)
    assert {r["incidents"] for r in out[2:]} == {0}


def test_a_job_lost_with_its_only_node_counts_and_one_on_many_does_not():
    jobs = [
        {"scheduler": "slurm", "job_id": "a", "attempt": 0, "state": "node_fail", "ended_at": START, "node_list": "n1", "source": "slurm"},
        {"scheduler": "slurm", "job_id": "b", "attempt": 0, "state": "node_fail", "ended_at": START, "node_list": "n2,n4", "source": "slurm"},
    ]  # fmt: skip
    out = {r["node"]: r for r in rows("node", telemetry__gpu_hours=HOURS, telemetry__jobs=jobs)}
    assert (out["n1"]["incidents"], out["n1"]["what"]) == (1, "host")
    assert out["n2"]["incidents"] == out["n4"]["incidents"] == 0


def test_a_link_whose_errors_grow():
    # sixteen links read every ten minutes for an hour; one grew in six of the minutes
    read = [
        counter(link, minute, None if minute == 0 else 3 * (link == 5))
        for link in range(16)
        for minute in range(0, 61, 10)
    ]
    out = rows("link", telemetry__link_counters=read)
    first = out[0]
    assert (first["link_index"], first["incidents"], first["others"]) == (5, 6, 16)
    assert first["expected"] == pytest.approx(6 / 16)
    assert first["evidence"] == pytest.approx(6 * math.log(16) - (6 - 6 / 16), abs=1e-6)
    assert (first["is_suspect"], first["what"]) == (True, "fail: NVLink replays >= 1")
    assert not any(r["is_suspect"] for r in out[1:])


def test_nothing_wrong_nobody_suspect():
    out = rows("node", telemetry__gpu_hours=HOURS)
    assert len(out) == 10
    assert {(r["evidence"], r["excess_ratio"], r["is_suspect"]) for r in out} == {(0, None, False)}
