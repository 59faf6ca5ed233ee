"""GPU performance monitoring on Hopper and later: how busy tensor pipes, SMs, memory and links were between two ticks.

Belongs here: the pair of samples kept for one GPU (or MIG instance) and the metrics computed between them. Does
not belong here: profiling through DCGM, which needs its own daemon.
"""

from __future__ import annotations

from typing import Any, Final

import pynvml

from sources.telemetry.nvml_errors import NO_PREVIOUS_SAMPLE, absent_reason, word
from sources.telemetry.nvml_reading import Reading

# column -> GPM metric id; percentages
RATIOS: Final[dict[str, int]] = {
    "graphics_active_ratio": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    "sm_active_ratio": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy_ratio": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_active_ratio": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_active_ratio": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}
# column -> GPM metric id; MiB/s. The whole board's: a MIG instance has no share of them.
RATES: Final[dict[str, int]] = {
    "nvlink_tx_bytes_per_s": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    "nvlink_rx_bytes_per_s": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    "pcie_tx_bytes_per_s": pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    "pcie_rx_bytes_per_s": pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
}
METRICS: Final = RATIOS | RATES
_PERCENT: Final = 100
_MIB: Final = 1 << 20
SHORTEST_S: Final = 0.1  # NVML asks for more than 100 ms between two samples
LONGEST_S: Final = 600.0  # an average over a longer pause says nothing about a tick


class Gpm:
    """The previous and the current sample of one GPU; `read` gives the metrics between them.

    `gpu_instance_id` is given for a MIG instance. Where GPM does not exist, every read is null with the
    driver's reason, found out once.
    """

    def __init__(self, handle: Any, *, gpu_instance_id: int | None = None) -> None:
        self._handle = handle
        self._instance = gpu_instance_id
        self._metrics = METRICS if gpu_instance_id is None else RATIOS
        self._samples: list[Any] = []
        self._taken_at: float | None = None
        self._absent = self._probe()
        self._request = pynvml.c_nvmlGpmMetricsGet_t() if not self._absent else None

    def _probe(self) -> str:
        try:
            if not pynvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
                return word(pynvml.NVML_ERROR_NOT_SUPPORTED)
            self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        except pynvml.NVMLError as error:
            return absent_reason(error.value)
        return ""

    @property
    def supported(self) -> bool:
        """Whether this GPU has GPM at all."""
        return not self._absent

    def read(self, now: float, reading: Reading) -> None:
        """Take a sample at monotonic second `now` and fill the metrics since the one before.

        Raises `DeviceLostError` or `DriverDownError`.
        """
        reason = self._absent or self._take(now) or self._difference(reading)
        if reason:
            for column in self._metrics:
                reading.miss(column, reason)

    def _take(self, now: float) -> str:
        """Replace the older sample. Returns why there is no difference, or nothing."""
        gap = None if self._taken_at is None else now - self._taken_at
        if gap is not None and gap < SHORTEST_S:
            return NO_PREVIOUS_SAMPLE
        older, newer = self._samples
        try:
            if self._instance is None:
                pynvml.nvmlGpmSampleGet(self._handle, older)
            else:
                pynvml.nvmlGpmMigSampleGet(self._handle, self._instance, older)
        except pynvml.NVMLError as error:
            self._taken_at = None
            return absent_reason(error.value)
        self._samples = [newer, older]
        self._taken_at = now
        return NO_PREVIOUS_SAMPLE if gap is None or gap > LONGEST_S else ""

    def _difference(self, reading: Reading) -> str:
        request: Any = self._request
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(self._metrics)
        request.sample1, request.sample2 = self._samples
        slots = request.metrics
        for index, metric in enumerate(self._metrics.values()):
            slots[index].metricId = metric
            slots[index].nvmlReturn = pynvml.NVML_ERROR_NO_DATA
        try:
            pynvml.nvmlGpmMetricsGet(request)
        except pynvml.NVMLError as error:
            return absent_reason(error.value)
        for index, column in enumerate(self._metrics):
            value = slots[index].value
            if slots[index].nvmlReturn != pynvml.NVML_SUCCESS:
                reading.miss(column, absent_reason(slots[index].nvmlReturn))
            else:
                reading.put(column, value * _MIB if column in RATES else value / _PERCENT)
        return ""

    def close(self) -> None:
        """Free the samples; the driver must still be initialised."""
        for sample in self._samples:
            try:
                pynvml.nvmlGpmSampleFree(sample)
            except pynvml.NVMLError:
                continue
        self._samples = []
        self._absent = self._absent or NO_PREVIOUS_SAMPLE
