"""From FLOPs per token and a throughput to MFU and HFU, with every line of the arithmetic.

Belongs here: one utilisation figure and its derivation, standard library only. Does not belong here: frames
of steps (`efficiency.py`), FLOPs of a model (`flops.py`), the table of peaks (`peaks.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TERA = 1e12
TOLERANCE_POINTS = 1.0


@dataclass(frozen=True, slots=True)
class Utilisation:
    """One figure: achieved TFLOP/s of one accelerator, and its share of a peak (None where none is known)."""

    tokens_per_s: float
    achieved_tflops: float
    executed_tflops: float
    peak_tflops: float | None
    lines: tuple[str, ...]

    @property
    def mfu_ratio(self) -> float | None:
        """Model FLOPs utilisation, 0-1."""
        return None if self.peak_tflops is None else self.achieved_tflops / self.peak_tflops

    @property
    def hfu_ratio(self) -> float | None:
        """Hardware FLOPs utilisation, 0-1."""
        return None if self.peak_tflops is None else self.executed_tflops / self.peak_tflops

    @property
    def is_impossible(self) -> bool:
        """Would the hardware have done more than its peak?"""
        return self.peak_tflops is not None and self.executed_tflops > self.peak_tflops


def utilisation(
    *,
    tokens: float,
    seconds: float,
    accelerators: float,
    model_flops_per_token: float,
    hardware_flops_per_token: float | None = None,
    peak_tflops: float | None = None,
) -> Utilisation:
    """MFU = tokens/s x FLOP per token / (accelerators x dense peak). Raises `ValueError` for a zero divisor.

    tokens: all tokens the job trained in `seconds` · peak_tflops: dense, of one accelerator, TFLOP/s.
    """
    for name, value in (("seconds", seconds), ("accelerators", accelerators), ("tokens", tokens)):
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    if peak_tflops is not None and not peak_tflops > 0:
        raise ValueError(f"the peak must be above 0, got {peak_tflops}")
    executed_flops = model_flops_per_token if hardware_flops_per_token is None else hardware_flops_per_token
    rate = tokens / seconds
    achieved = rate * model_flops_per_token / accelerators / TERA
    executed = rate * executed_flops / accelerators / TERA
    per_device = f"{accelerators:,.0f} / 1e12"
    lines = [
        f"throughput   {tokens:,.0f} tokens / {seconds:,.6g} s = {rate:,.0f} tokens/s",
        f"achieved     {rate:,.0f} x {model_flops_per_token:.6e} / {per_device} = {achieved:,.1f} TFLOP/s each",
    ]
    if executed_flops != model_flops_per_token:
        lines.append(
            f"executed     {rate:,.0f} x {executed_flops:.6e} / {per_device} = {executed:,.1f} TFLOP/s each, with recompute"
        )
    if peak_tflops is not None:
        lines.append(f"MFU          {achieved:,.1f} / {peak_tflops:,.6g} = {100 * achieved / peak_tflops:.2f} %")
        if executed_flops != model_flops_per_token:
            lines.append(f"HFU          {executed:,.1f} / {peak_tflops:,.6g} = {100 * executed / peak_tflops:.2f} %")
    return Utilisation(rate, achieved, executed, peak_tflops, tuple(lines))


def why_impossible(computed: Utilisation, precision: str, peaks: Mapping[str, float]) -> str:
    """What to look at when more than the peak was executed, in the order of likelihood; empty when it was not.

    peaks: dense peaks of the same accelerator in TFLOP/s, by precision; int8 trains nothing.
    """
    if not computed.is_impossible or computed.peak_tflops is None:
        return ""
    over = computed.executed_tflops / computed.peak_tflops
    rate = computed.executed_tflops
    fits = [
        f"{p} ({100 * rate / peak:.1f} %)" for p, peak in peaks.items() if p not in {precision, "int8"} and rate <= peak
    ]
    causes = [
        f"fewer accelerators counted than took part (it takes {over:.3g} times as many)",
        "tokens of more steps than seconds cover",
        "all parameters given where a token uses only some (mixture of experts)",
        "attention counted in full, or over a longer sequence than was trained",
        f"a run in a precision other than {precision}"
        + (f": in the dense peak of {', '.join(fits)} it fits" if fits else ""),
        "2:4 sparsity, which a dense peak leaves out",
    ]
    return f"{100 * over:.1f} % of the peak cannot be; look for: {'; '.join(causes)}"


def compare_with_published(
    published_ratio: float, computed: Utilisation, flops_per_token: float, *, hardware: bool, readings: dict[str, float]
) -> tuple[str, ...]:
    """Say whether a published figure follows from the same inputs, and if not, what it would take.

    readings: the ratio under other ways of counting (attention left out, causal, with recompute), by name.
    """
    ratio = computed.hfu_ratio if hardware else computed.mfu_ratio
    if ratio is None or computed.peak_tflops is None:
        return ("published    cannot be compared: no peak is known",)
    apart = 100 * (ratio - published_ratio)
    if abs(apart) <= TOLERANCE_POINTS:
        return (f"published    {100 * published_ratio:.2f} %: agrees, {apart:+.2f} points apart",)
    scale = published_ratio / ratio
    lines = [
        f"published    {100 * published_ratio:.2f} %: does not follow from these inputs, {apart:+.2f} points apart",
        f"  it would take {computed.tokens_per_s * scale:,.0f} tokens/s ({100 * scale:.1f} % of the throughput given)",
        f"  or {flops_per_token * scale:.6e} FLOP per token, or a peak of {computed.peak_tflops / scale:,.1f} TFLOP/s",
    ]
    close = {k: v for k, v in readings.items() if abs(100 * (v - published_ratio)) <= TOLERANCE_POINTS}
    if close:
        lines += [f"  counted as {name} it is {100 * value:.2f} %, which agrees" for name, value in close.items()]
    elif readings:
        tried = ", ".join(f"{name} {100 * value:.2f} %" for name, value in readings.items())
        lines.append(f"  no other way of counting reaches it: {tried}")
    return tuple(lines)
