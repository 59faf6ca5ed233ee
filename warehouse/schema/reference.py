"""Hardware dimensions: accelerators, the names they go by, and the systems built from them.

Belongs here: what a part is and can do, as published. Does not belong here: companies and tracked indicators
(`entities.py`), installed clusters and achieved efficiency (`disclosures.py`), what a cluster measures.
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import Provenance, col, table_info


class Accelerator(Provenance, table=True):
    """One accelerator as its vendor sells it; peaks are dense, never sparse.

    Grain: accelerator and source. Key: accelerator_id, source, known_at. The identifier is lower case and joined
    by hyphens: `vendor-model`, then the module form where a model is sold in several, then the memory as
    `80gb` where one number is known (`nvidia-h100-sxm5-80gb`, `nvidia-h100-nvl-94gb`, `google-tpu-v5p-95gb`).
    A peak that the vendor does not publish is null: it is not derived from another one.
    """

    __tablename__ = "accelerators"
    __table_args__ = table_info(
        "ref",
        "Accelerators with dense peaks, memory, power and links. "
        "Grain: accelerator and source. Key: accelerator_id, source, known_at.",
        kind="dimension",
        checks=(
            (
                "fp8_not_below_bf16",
                "warning",
                "fp8_dense_tflops < bf16_dense_tflops",
            ),
            (
                "fp4_not_below_fp8",
                "warning",
                "fp4_dense_tflops < fp8_dense_tflops",
            ),
        ),
    )
    accelerator_id: str = col("canonical name, `vendor-model[-form factor][-memory]`, lower case", key=True)
    vendor: str = col("who designs and sells it")
    model: str = col("model as the vendor writes it, with what tells variants apart")
    form_factor: str | None = col("module or card form, for example SXM5, PCIe, OAM")
    architecture: str | None = col("architecture or core family")
    release_date: dt.date | None = col("first availability or launch")
    process_nm: float | None = col("marketing name of the process node", unit="nm", ge=1, le=100)
    memory_gb: float | None = col("memory on the package, decimal gigabytes", unit="GB", ge=0, le=10_000)
    memory_type: str | None = col("kind of memory, for example HBM3e")
    memory_bandwidth_gb_s: float | None = col("peak memory bandwidth", unit="GB/s", ge=0, le=1e8)
    fp64_tflops: float | None = col("FP64 vector peak", unit="TFLOP/s", ge=0, le=1e6)
    fp64_matrix_tflops: float | None = col("FP64 matrix peak", unit="TFLOP/s", ge=0, le=1e6)
    fp32_tflops: float | None = col("FP32 vector peak", unit="TFLOP/s", ge=0, le=1e6)
    tf32_dense_tflops: float | None = col("TF32 dense matrix peak", unit="TFLOP/s", ge=0, le=1e6)
    bf16_dense_tflops: float | None = col("BF16 dense matrix peak", unit="TFLOP/s", ge=0, le=1e6)
    fp16_dense_tflops: float | None = col("FP16 dense matrix peak", unit="TFLOP/s", ge=0, le=1e6)
    fp8_dense_tflops: float | None = col("FP8 dense matrix peak", unit="TFLOP/s", ge=0, le=1e6)
    fp4_dense_tflops: float | None = col("FP4 dense matrix peak", unit="TFLOP/s", ge=0, le=1e6)
    int8_dense_tops: float | None = col("INT8 dense matrix peak", unit="TOP/s", ge=0, le=1e6)
    matrix_clock_mhz: float | None = col(
        "SM clock at which the dense matrix peaks are stated, where published", unit="MHz", ge=1, le=20_000
    )
    tdp_w: float | None = col("rated power; notes say whether module, chip or measured", unit="W", ge=0, le=100_000)
    scaleup_interconnect: str | None = col("link inside the scale-up domain")
    scaleup_bandwidth_gb_s: float | None = col("scale-up bandwidth, both directions added", unit="GB/s", ge=0, le=1e6)
    scaleout_gb_s: float | None = col("usual network bandwidth for each accelerator", unit="GB/s", ge=0, le=1e5)
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")


class AcceleratorAlias(Provenance, table=True):
    """A name that some tool or price list uses, and the accelerator it means.

    Grain: name within a namespace. Key: namespace, raw_name, source, known_at. A name that fits several form
    factors or memory sizes has no accelerator_id and says why in `unresolved_reason`.
    """

    __tablename__ = "accelerator_aliases"
    __table_args__ = table_info(
        "ref",
        "Names of accelerators in tools, result files and price lists. "
        "Grain: name in a namespace. Key: namespace, raw_name, source, known_at.",
        kind="dimension",
        checks=(
            (
                "resolved_or_reason",
                "critical",
                "(accelerator_id is null) = (unresolved_reason is null)",
            ),
        ),
    )
    namespace: str = col("who writes the name: nvml, mlperf, aws, azure, …", key=True)
    raw_name: str = col("the name exactly as written there", key=True)
    accelerator_id: str | None = col("`ref.accelerators.accelerator_id`; null when the name is ambiguous or unknown")
    gpu_count: float | None = col("accelerators behind one unit of the name; below 1 for a slice", ge=0, le=100_000)
    form_factor: str | None = col("form factor that the name implies")
    memory_gb: float | None = col(
        "memory of one accelerator or slice that the name implies", unit="GB", ge=0, le=10_000
    )
    unresolved_reason: str | None = col("why no single accelerator is meant")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")


class System(Provenance, table=True):
    """One server, rack, pod or reference cluster as published; peaks are dense.

    Grain: system and source. Key: system_id, source, known_at.
    """

    __tablename__ = "systems"
    __table_args__ = table_info(
        "ref",
        "Servers, racks, pods and reference clusters with dense peaks. "
        "Grain: system and source. Key: system_id, source, known_at.",
        kind="dimension",
    )
    system_id: str = col("canonical name, lower case", key=True)
    vendor: str = col("who designs and sells it")
    system: str = col("name as the vendor writes it")
    system_class: str = col("node, rack, rack pair, supernode, pod or cluster reference")
    accelerator_count: int = col("accelerators in the system", ge=1, le=10_000_000)
    accelerator_model: str = col("accelerator as named by the source")
    accelerator_id: str | None = col("`ref.accelerators.accelerator_id` where the name fits exactly one")
    cpu_count: int | None = col("host processors", ge=0, le=10_000_000)
    cpu_model: str | None = col("host processor")
    rack_count: int | None = col("racks", ge=0, le=100_000)
    scaleup_domain_accelerators: int | None = col("accelerators in one scale-up domain", ge=1, le=10_000_000)
    scaleup_fabric: str | None = col("fabric of the scale-up domain")
    scaleup_bandwidth_per_accelerator_gb_s: float | None = col(
        "scale-up bandwidth of one accelerator, both directions added", unit="GB/s", ge=0, le=1e6
    )
    scaleup_total_tb_s: float | None = col("scale-up bandwidth of the system", unit="TB/s", ge=0, le=1e7)
    scaleout_per_accelerator_gbit_s: float | None = col(
        "network bandwidth for each accelerator", unit="Gbit/s", ge=0, le=1e6
    )
    memory_total_tb: float | None = col("accelerator memory", unit="TB", ge=0, le=1e6)
    memory_bandwidth_total_tb_s: float | None = col("accelerator memory bandwidth", unit="TB/s", ge=0, le=1e7)
    bf16_dense_pflops: float | None = col("BF16 dense peak of the system", unit="PFLOP/s", ge=0, le=1e8)
    fp8_dense_pflops: float | None = col("FP8 dense peak of the system", unit="PFLOP/s", ge=0, le=1e8)
    fp4_dense_pflops: float | None = col("FP4 dense peak of the system", unit="PFLOP/s", ge=0, le=1e8)
    power_kw: float | None = col("power of the system; notes say maximum or typical", unit="kW", ge=0, le=1e6)
    cooling: str | None = col("air, liquid or both")
    release_date: dt.date | None = col("launch or announcement")
    status: str | None = col("shipping, announced, discontinued, … as the source states it")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")
