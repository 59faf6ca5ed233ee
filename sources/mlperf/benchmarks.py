"""What the rules say of each training benchmark: how many runs, how many are dropped, what counts progress.

Belongs here: facts of the rule book and of the logs. Does not belong here: the score (`assets/mlperf_score.py`)
and FLOPs (`assets/mlperf_work.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Where the work done until the stop is logged. No log key means the same for all benchmarks: `epoch_num` counts
# tokens, sequences, epochs or a fraction of one, and `train_samples` is often the size of the data set.
CounterRule = Literal["stop_samples", "eval_epoch", "train_samples", "unknown"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Rules of one benchmark directory.

    benchmark_id: the name that holds across rounds · runs_required: result files a submission must have ·
    dropped_each_side: runs dropped at either end of the order before the mean · counter, unit: where and in
    which unit the work done is logged.
    """

    benchmark_id: str
    runs_required: int
    counter: CounterRule = "unknown"
    unit: str | None = None
    dropped_each_side: int = 1


_EPOCHS: tuple[CounterRule, str] = ("eval_epoch", "epochs")
_FRACTION: tuple[CounterRule, str] = ("eval_epoch", "epoch_fraction")
_SEQUENCES: tuple[CounterRule, str] = ("stop_samples", "sequences")
_IMAGES: tuple[CounterRule, str] = ("stop_samples", "images")

# Run counts: mlcommons/logging, mlperf_logging/benchmark_meta.py; drops: training_policies, training_rules.adoc,
# "Benchmark Results" (one at each end) and the rules of the deprecated benchmarks (four for unet3d).
BENCHMARKS: dict[str, Benchmark] = {
    "bert": Benchmark("bert", 10, "train_samples", "sequences"),
    "deepseekv3_671b": Benchmark("deepseekv3_671b", 3),
    "dlrm": Benchmark("dlrm", 5, *_FRACTION),
    "dlrm_dcnv2": Benchmark("dlrm_dcnv2", 10, *_FRACTION),
    "flux1": Benchmark("flux1", 10, *_IMAGES),
    "gnn": Benchmark("rgat", 10, *_FRACTION),
    "gpt3": Benchmark("gpt3", 3, "eval_epoch", "tokens"),
    "llama2_70b_lora": Benchmark("llama2_70b_lora", 10, *_SEQUENCES),
    "llama31_405b": Benchmark("llama31_405b", 3, *_SEQUENCES),
    "llama31_8b": Benchmark("llama31_8b", 10, *_SEQUENCES),
    "maskrcnn": Benchmark("maskrcnn", 5, *_EPOCHS),
    "minigo": Benchmark("minigo", 10),
    "resnet": Benchmark("resnet", 5, *_EPOCHS),
    "retinanet": Benchmark("retinanet", 5, *_EPOCHS),
    "rgat": Benchmark("rgat", 10, *_FRACTION),
    "rnnt": Benchmark("rnnt", 10, *_EPOCHS),
    "ssd": Benchmark("retinanet", 5, *_EPOCHS),
    "stable_diffusion": Benchmark("stable_diffusion", 10, *_IMAGES),
    "unet3d": Benchmark("unet3d", 40, *_EPOCHS, dropped_each_side=4),
}


def benchmark_id_of(benchmark: str) -> str:
    """The name that holds across rounds; an unknown benchmark keeps its own."""
    known = BENCHMARKS.get(benchmark)
    return known.benchmark_id if known else benchmark
