"""`almanac mfu`: model FLOPs utilisation from a model's shape and a throughput, arithmetic printed.

Belongs here: options, output and exit codes. Does not belong here: formulas (`assets/flops.py`, `assets/mfu.py`).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click

from assets.flops import (
    FORMULA_TEXT,
    FORMULAS,
    FlopCount,
    Recompute,
    Shape,
    ShapeError,
    count_flops,
    count_params,
)
from assets.mfu import TERA, Utilisation, compare_with_published, utilisation, why_impossible
from assets.peaks import PEAK_COLUMNS, Peak, PeakUnknownError, dense_peaks, find_peak
from sources.base import ParseError

_SHAPE_FIELDS = tuple(Shape.__dataclass_fields__)

_SCALE = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


class Count(click.ParamType[float]):
    """A number that may carry K, M, B or T (405B), or an exponent (4.05e11)."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).replace("_", "").replace(",", "").strip()
        scale = _SCALE.get(text[-1:].upper(), 1.0)
        try:
            number = float(text[:-1] if scale != 1.0 else text) * scale
        except ValueError:
            self.fail(f"{value!r} is not a number like 175e9, 175B or 11,616", param, ctx)
        if not 0 <= number < float("inf"):
            self.fail(f"{value!r} is not a finite number of 0 or more", param, ctx)
        return number


COUNT = Count()


class WrongInputError(click.ClickException):
    """An input is missing or refused: one line, exit 2."""

    exit_code = 2


@click.command("mfu", short_help="Compute MFU and HFU and print the arithmetic.")
@click.option("--params", type=COUNT, help="All parameters: 175e9 or 175B.")
@click.option("--active-params", type=COUNT, help="Parameters one token uses (mixture of experts).")
@click.option("--embedding-params", type=COUNT, help="Input embedding, taken off: a look-up does no matmul.")
@click.option("--trainable-params", type=COUNT, help="Parameters with gradients, when the rest is frozen (LoRA).")
@click.option("--layers", type=click.IntRange(1), help="Transformer layers.")
@click.option("--hidden", type=click.IntRange(1), help="Model width.")
@click.option("--heads", type=click.IntRange(1), help="Query heads; without it attention is as wide as the model.")
@click.option("--head-dim", type=float, help="Width of a query-key head [default: hidden / heads].")
@click.option("--value-head-dim", type=float, help="Width of a value head where it differs (MLA).")
@click.option("--kv-heads", type=click.IntRange(1), help="Key-value heads (grouped-query attention).")
@click.option("--ffn", "ffn_hidden", type=click.IntRange(1), help="Inner width of the MLP, of one expert.")
@click.option("--gated", "is_gated_mlp", is_flag=True, help="The MLP has three matrices (SwiGLU).")
@click.option("--vocab", type=click.IntRange(1), help="Size of the vocabulary.")
@click.option("--tied", "is_tied_embedding", is_flag=True, help="Input and output embedding are one matrix.")
@click.option("--experts", type=click.IntRange(1), help="Experts of a layer (mixture of experts).")
@click.option("--experts-per-token", type=click.IntRange(1), help="Experts that a token is sent to.")
@click.option("--shared-experts", type=click.IntRange(0), help="Experts that every token passes.")
@click.option("--seq-len", type=click.IntRange(1), help="Tokens of a sequence.")
@click.option("--window", "attention_window", type=click.IntRange(1), help="Sliding-window attention.")
@click.option("--causal/--full", "is_causal", default=None, help="Count attention by half, or in full [default: full].")
@click.option(
    "--formula", type=click.Choice(FORMULAS), default="palm", show_default=True, help="How model FLOPs are counted."
)
@click.option(
    "--recompute",
    type=click.Choice(("none", "selective", "full")),
    default="none",
    show_default=True,
    help="What the backward pass computes again: counts for HFU only.",
)
@click.option("--flops-per-token", type=COUNT, help="Use this figure instead of a formula.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Shape from a TOML file.")
@click.option("--tokens", type=COUNT, required=True, help="Tokens trained in --seconds by all accelerators.")
@click.option("--seconds", type=COUNT, required=True, help="Seconds that --tokens took.")
@click.option("--accelerators", type=COUNT, required=True, help="How many took part.")
@click.option("--accelerator", help="Id in ref.accelerators, like nvidia-h100-sxm5-80gb.")
@click.option(
    "--precision",
    type=click.Choice(tuple(PEAK_COLUMNS)),
    default="bf16",
    show_default=True,
    help="Which dense peak to divide by.",
)
@click.option("--peak-tflops", type=COUNT, help="Dense peak to divide by, in place of the table's.")
@click.option("--published", type=float, help="Published figure in percent: say whether it follows from these inputs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object in place of the lines.")
@click.option(
    "--home",
    expose_value=False,
    envvar="ALMANAC_HOME",
    help="Taken as by every command; nothing of it is read, peaks come with the program.",
)
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Compute MFU (and HFU, with --recompute) and print the arithmetic line by line.

    Peaks are dense only and come from the curated table that also fills ref.accelerators. Exit 1: the figure is above 100 %, which cannot be, so an
    input is wrong. Exit 2: an input is missing or the peak is unknown.
    """
    try:
        shape = _shape(options)
        flops = None if options["flops_per_token"] else count_flops(shape, options["formula"], options["recompute"])
        peak = _peak(options)
        result = utilisation(
            tokens=options["tokens"],
            seconds=options["seconds"],
            accelerators=options["accelerators"],
            model_flops_per_token=options["flops_per_token"] or (flops.model_flops_per_token if flops else 0.0),
            hardware_flops_per_token=flops.hardware_flops_per_token if flops else None,
            peak_tflops=peak.tflops,
        )
    except (ParseError, PeakUnknownError, ValueError) as error:
        raise WrongInputError(_by_option(context.command, str(error))) from error
    problem = why_impossible(result, peak.precision, dense_peaks(peak.accelerator_id))
    if options["as_json"]:
        click.echo(_as_json(options, flops, peak, result, problem))
    else:
        click.echo("\n".join(_lines(shape, options, flops, peak, result)))
        _compare(shape, options, flops, result)
    if problem:
        click.echo(f"almanac: {problem}", err=True)
        context.exit(1)


def _by_option(command: click.Command, text: str) -> str:
    """A message that names fields of the shape, with the options that set them."""
    options = {p.name: p.opts[0] for p in command.params}
    return re.sub(r"`(\w+)`", lambda found: options.get(found[1], found[1]), text)


def _compare(shape: Shape, options: dict[str, Any], flops: FlopCount | None, result: Utilisation) -> None:
    if options["published"] is not None:
        hardware = flops is not None and bool(flops.recompute_terms)
        per_token = result.executed_tflops * TERA * options["accelerators"] / result.tokens_per_s
        readings = _readings(shape, options, result)
        lines = compare_with_published(
            options["published"] / 100, result, per_token, hardware=hardware, readings=readings
        )
        click.echo("\n".join(lines))


def _shape(options: dict[str, Any]) -> Shape:
    stated = {k: options[k] for k in _SHAPE_FIELDS if options.get(k) not in (None, False)}
    if options["config"]:
        from sources.model_config import read_shape

        stated = {**read_shape(options["config"].read_bytes()), **stated}
    if options["is_causal"] is False:
        stated["is_causal"] = False
    if "hidden" in stated and not {"heads", "head_dim", "kv_heads"} & set(stated):
        # Attention depends on heads x head width only, which is the model width unless stated otherwise.
        stated = {**stated, "heads": 1, "head_dim": float(stated["hidden"])}
    return Shape(**stated)


def _peak(options: dict[str, Any]) -> Peak:
    if options["peak_tflops"]:
        return Peak(
            options["accelerator"] or "accelerator",
            options["precision"],
            options["peak_tflops"],
            "--peak-tflops",
            "given",
        )
    if not options["accelerator"]:
        raise PeakUnknownError("give --accelerator ID (see ref.accelerators) or --peak-tflops")
    return find_peak(options["accelerator"], options["precision"])


def _lines(
    shape: Shape, options: dict[str, Any], flops: FlopCount | None, peak: Peak, result: Utilisation
) -> list[str]:
    if flops is None:
        lines = [f"FLOPs/token  {options['flops_per_token']:.6e} as given"]
    else:
        lines = [f"formula      {FORMULA_TEXT[flops.formula]}", *_parameter_lines(shape, flops)]
        lines += [f"  {t.arithmetic} = {t.flops:.6e}   ({t.name})" for t in flops.model_terms]
        lines.append(f"FLOPs/token  {flops.model_flops_per_token:.6e}")
        if flops.recompute_terms:
            lines += [f"  + {t.arithmetic} = {t.flops:.6e}   ({t.name})" for t in flops.recompute_terms]
            lines.append(f"  executed   {flops.hardware_flops_per_token:.6e}   ({flops.recompute} recompute)")
        lines += [f"note         {note}" for note in flops.notes]
    lines.append(
        f"peak         {peak.accelerator_id}, {peak.precision} dense: {peak.tflops:,.6g} TFLOP/s"
        f"   ({peak.source_name}; {peak.certainty})"
    )
    before = [line for line in result.lines if not line.startswith(("MFU", "HFU"))]
    return [*lines[:-1], *before, lines[-1], *result.lines[len(before) :]]


def _parameter_lines(shape: Shape, flops: FlopCount) -> list[str]:
    if shape.params is not None or not flops.formula.startswith("palm"):
        return []
    counted = count_params(shape)
    text = f"{counted.params:,.0f} counted from the dimensions, {counted.active_params:,.0f} active"
    return [f"parameters   {text}, {counted.embedding_params:,.0f} in the input embedding; norms and biases left out"]


def _readings(shape: Shape, options: dict[str, Any], result: Utilisation) -> dict[str, float]:
    """The ratio under every other way of counting that the given shape allows."""
    found: dict[str, float] = {}
    for formula in FORMULAS:
        for causal, recompute in ((False, "none"), (True, "none"), (False, "selective"), (False, "full")):
            name = f"{formula}{', causal' if causal else ''}{f', {recompute} recompute' if recompute != 'none' else ''}"
            try:
                count = count_flops(replace(shape, is_causal=causal), formula, cast("Recompute", recompute))
            except ShapeError:
                continue
            per_token = count.hardware_flops_per_token
            found[name] = (
                result.tokens_per_s * per_token / options["accelerators"] / TERA / float(result.peak_tflops or 1)
            )
    return {} if options["flops_per_token"] else found


def _as_json(options: dict[str, Any], flops: FlopCount | None, peak: Peak, result: Utilisation, problem: str) -> str:
    with_recompute = flops is not None and bool(flops.recompute_terms)
    return json.dumps(
        {
            "formula": flops.formula if flops else "given",
            "recompute": flops.recompute if flops else None,
            "model_flops_per_token": flops.model_flops_per_token if flops else options["flops_per_token"],
            "hardware_flops_per_token": flops.hardware_flops_per_token if with_recompute and flops else None,
            "tokens_per_s": result.tokens_per_s,
            "achieved_tflops_per_accelerator": result.achieved_tflops,
            "accelerator_id": peak.accelerator_id,
            "precision": peak.precision,
            "peak_dense_tflops": peak.tflops,
            "peak_source": peak.source_name,
            "mfu_ratio": result.mfu_ratio,
            "hfu_ratio": result.hfu_ratio if with_recompute else None,
            "problem": problem or None,
        }
    )
