"""Hours of a day in SQL: of 512 GPUs from their samples at 10 s, and of 4,096 GPUs from their minutes.

Belongs here: the two queries that an analyst would write. Does not belong here: the pipeline's own roll-up, which
also does energy, gaps and restarts (`telemetry_peers.py` times it). Run: `python -m benchmarks.hour_rollup [GPUS]`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

TARGETS_S = {"from_samples_s": 0.3, "from_minutes_s": 1.0}
SAMPLES = (
    "select gpu_uuid, epoch_us(sampled_at) // 3600000000 as hour, count(*), avg(power_w), max(power_w), "
    "avg(gpu_util_ratio), avg(tensor_active_ratio), max(temperature_c), max(energy_j) - min(energy_j) "
    "from telemetry.gpu_samples group by all"
)
MINUTES = (
    "select gpu_uuid, epoch_us(minute_at) // 3600000000 as hour, sum(sample_count), sum(energy_j), max(power_max_w), "
    "sum(power_mean_w * power_count) / sum(power_count), sum(gpu_util_mean_ratio * gpu_util_count) / "
    "sum(gpu_util_count), max(temperature_max_c) from many group by all"
)


def main() -> None:
    import duckdb

    from assets.ingest import ingest
    from assets.publish import publish_home
    from assets.rollup import roll_up
    from benchmarks.spool_bulk import bulk_segments
    from benchmarks.telemetry_peers import best
    from warehouse.home import Home

    gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    with tempfile.TemporaryDirectory(prefix="almanac-bench-") as folder:
        home = Home(Path(folder) / "home").prepare()
        rows = bulk_segments(home.inbox, nodes=gpus // 8, tick_count=8640, interval_s=10.0, hours_from=0, links=False)
        ingest(home)
        roll_up(home)
        publish_home(home)
        with duckdb.connect(str(home.database), read_only=True) as con:
            con.execute("set threads = 2")
            told = {
                "gpus_of_samples": gpus,
                "samples": rows,
                "from_samples_s": best(lambda: con.execute(SAMPLES).fetchnumpy()),
            }
            con.execute(
                "create temp table many as select m.* replace (gpu_uuid || '#' || r.n as gpu_uuid) "
                f"from telemetry.gpu_minutes as m cross join range({4096 // gpus}) as r(n)"
            )
            minutes = con.sql("select count(*) from many").fetchall()[0][0]
            told |= {"minutes": minutes, "from_minutes_s": best(lambda: con.execute(MINUTES).fetchnumpy())}
    print(json.dumps({**told, "targets": TARGETS_S}))


if __name__ == "__main__":
    main()
