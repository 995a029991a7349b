"""Model FLOP utilisation and throughput of a run, from what a step computes and how long it takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.efficiency.figures import Figures
from ml_metrics.efficiency.flops import flops_of_step
from ml_metrics.efficiency.peaks import peak_of, precisions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.efficiency import EfficiencyConfig

STEP_TIME = "step_time_p50"
"""The metric that counts as the time of a step. As a median it has no warm-up."""
MFU, HFU = "mfu", "hfu"
TOKENS, TOKENS_OF_CHIP, SAMPLES = "tokens_per_second", "tokens_per_second_per_chip", "samples_per_second"


def performance_of(config: EfficiencyConfig, chip: str, chips: int, step_seconds: float | None) -> Figures:
    """Return the efficiency of a run: the figures for which the test file states the work of a step."""
    wanted = dict(_wanted(config))
    if not wanted:
        return Figures()
    if step_seconds is None:
        return Figures(missing=dict.fromkeys(wanted, f"the run has no {STEP_TIME}: its steps were not recorded"))
    if not math.isfinite(step_seconds) or step_seconds <= 0 or chips < 1:
        return Figures(missing=dict.fromkeys(wanted, f"{STEP_TIME} is {step_seconds:.6g} s on {chips} chips"))
    rates = {name: amount / step_seconds for name, amount in wanted.items() if name not in {MFU, HFU}}
    if TOKENS in rates:
        rates[TOKENS_OF_CHIP] = rates[TOKENS] / chips
    utilised = {name: amount for name, amount in wanted.items() if name in {MFU, HFU}}
    return Figures(rates) + (_utilisation(utilised, config, chip, chips, step_seconds) if utilised else Figures())


def _wanted(config: EfficiencyConfig) -> Iterator[tuple[str, float]]:
    """Yield the figures that the test file has numbers for, with the amount of a step."""
    if config.tokens_per_step is not None:
        yield TOKENS, config.tokens_per_step
        yield TOKENS_OF_CHIP, config.tokens_per_step
    if config.samples_per_step is not None:
        yield SAMPLES, config.samples_per_step
    model = flops_of_step(config)
    if model is not None:
        yield MFU, model.number
    if config.hardware_flops_per_step is not None:
        yield HFU, config.hardware_flops_per_step


def _utilisation(
    flops_of: dict[str, float], config: EfficiencyConfig, chip: str, chips: int, seconds: float
) -> Figures:
    device = config.peak_of or chip
    peak = peak_of(device, config.precision)
    if peak is None:
        others = ", ".join(precisions_of(device))
        only = f", only in {others}" if others else ""
        reason = f"the table of peaks has none of {device} in {config.precision}{only}"
        return Figures(missing=dict.fromkeys(flops_of, reason))
    shares = {name: flops / (seconds * chips * peak.flops) for name, flops in flops_of.items()}
    on = "1 chip" if chips == 1 else f"{chips:,} chips"
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
