"""Model FLOP utilisation and throughput of a run, from what a step computes and how long it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.config.definition import MixtureOfExperts
from ml_metrics.config.document import read_document
from ml_metrics.core.text import counted

if TYPE_CHECKING:
    from ml_metrics.config.definition import EfficiencyConfig, Transformer


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures about the cost or the efficiency of one run."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """By name: why the run lacks a figure."""
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    """The prices, the formula and the peak that they were computed with."""

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            {**self.values, **other.values},
            {**self.missing, **other.missing},
            (*self.warnings, *other.warnings),
            {**self.metadata, **other.metadata},
        )


class Flops(NamedTuple):
    """A number of floating-point operations, and where it comes from."""

    number: float
    formula: str


def flops_of_step(config: EfficiencyConfig) -> Flops | None:
    """Return the operations of the model in a step on all chips together; None if the test file does not state them."""
    if config.flops_per_step is not None:
        return Flops(config.flops_per_step, "given in the test file")
    if config.model_flops is None or config.tokens_per_step is None:
        return None
    model = config.model_flops.dense_transformer or config.model_flops.moe_transformer
    if model is None:
        return None
    name = f"{config.model_flops.kind}, attention {model.attention}"
    return Flops(config.tokens_per_step * flops_of_token(model), name)


def flops_of_token(model: Transformer) -> float:
    used = model.active_parameters if isinstance(model, MixtureOfExperts) else model.parameters
    attention = 12 * model.layers * model.heads * model.head_size * model.sequence_length
    return 6 * used + (attention / 2 if model.attention == "half" else attention)


class Peak(NamedTuple):
    """The operations in a second of one chip, and where the number comes from."""

    flops: float
    source: str


def peak_of(chip: str, precision: str) -> Peak | None:
    return peaks_by_chip().get(chip, {}).get(precision)


@cache
def peaks_by_chip() -> dict[str, dict[str, Peak]]:
    """By chip and precision."""
    table = read_document(Path(__file__).with_name("peaks.yaml")).content
    found: dict[str, dict[str, Peak]] = {}
    for line in table["peaks"]:
        source = table["sources"][line["source"]]
        for precision, flops in line["flops"].items():
            text = f"{line['of']}, {precision}, dense: {source['title']}, read {source['read']}"
            for chip in line["chips"]:
                found.setdefault(chip, {})[precision] = Peak(float(flops), text)
    return found


STEP_TIME = "step_time_p50"
"""The metric that counts as the time of a step. As a median it has no warm-up."""
MFU, HFU = "mfu", "hfu"
TOKENS, TOKENS_OF_CHIP, SAMPLES = "tokens_per_second", "tokens_per_second_per_chip", "samples_per_second"


def performance_of(config: EfficiencyConfig, chip: str, chips: int, step_seconds: float | None) -> Figures:
    """Return the efficiency of a run: the figures for which the test file states the work of a step."""
    tokens, model = config.tokens_per_step, flops_of_step(config)
    work = {
        TOKENS: tokens,
        TOKENS_OF_CHIP: tokens,
        SAMPLES: config.samples_per_step,
        MFU: model and model.number,
        HFU: config.hardware_flops_per_step,
    }
    wanted = {name: amount for name, amount in work.items() if amount is not None}
    if not wanted:
        return Figures()
    if step_seconds is None:
        return Figures(missing=dict.fromkeys(wanted, f"the run has no {STEP_TIME}: its steps were not recorded"))
    if not math.isfinite(step_seconds) or step_seconds <= 0 or chips < 1:
        return Figures(missing=dict.fromkeys(wanted, f"{STEP_TIME} is {step_seconds:.6g} s on {chips} chips"))
    utilised = {name: wanted.pop(name) for name in (MFU, HFU) if name in wanted}
    rates = {name: amount / step_seconds for name, amount in wanted.items()}
    if TOKENS in rates:
        rates[TOKENS_OF_CHIP] = rates[TOKENS] / chips
    return Figures(rates) + (_utilisation(utilised, config, chip, chips, step_seconds) if utilised else Figures())


def _utilisation(
    flops_of: dict[str, float], config: EfficiencyConfig, chip: str, chips: int, seconds: float
) -> Figures:
    device = config.peak_of or chip
    peak = peak_of(device, config.precision)
    if peak is None:
        others = ", ".join(sorted(peaks_by_chip().get(device, {})))
        only = f", only in {others}" if others else ""
        reason = f"the table of peaks has none of {device} in {config.precision}{only}"
        return Figures(missing=dict.fromkeys(flops_of, reason))
    shares = {name: flops / (seconds * chips * peak.flops) for name, flops in flops_of.items()}
    on = counted(chips, "chip")
    impossible = {
        name: f"{share * 100:.4g} % is impossible: {flops_of[name]:.6g} FLOP a step in {seconds:.6g} s on {on} with "
        f"a peak of {peak.flops:.6g} FLOP/s; one of these is wrong"
        for name, share in shares.items()
        if share > 1
    }
    model = flops_of_step(config)
    formula = {"mfu.formula": model.formula} if model is not None else {}
    return Figures(
        {name: share * 100 for name, share in shares.items() if name not in impossible},
        impossible,
        tuple(f"{name}: {reason}" for name, reason in impossible.items()),
        {**formula, "mfu.peak": f"{peak.flops:.6g} FLOP/s ({peak.source})"},
    )
