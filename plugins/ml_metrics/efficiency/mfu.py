"""Model FLOP utilisation and throughput of a run, from what a step computes and how long it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.efficiency.flops import flops_of_step
from ml_metrics.efficiency.peaks import peak_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.efficiency import EfficiencyConfig

STEP_TIME = "step_time_p50"
"""The metric that counts as the time of a step. As a median it has no warm-up."""
MFU, HFU = "mfu", "hfu"
TOKENS, TOKENS_OF_CHIP, SAMPLES = "tokens_per_second", "tokens_per_second_per_chip", "samples_per_second"


@dataclass(frozen=True, slots=True)
class Performance:
    """The figures of a run by name, the reasons for those that it lacks, and where the numbers come from."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)


def performance_of(config: EfficiencyConfig, chip: str, chips: int, step_seconds: float | None) -> Performance:
    """Return what a run achieved. The figures are those for which the test file states what a step computes."""
    wanted = dict(_wanted(config))
    if not wanted:
        return Performance()
    if step_seconds is None:
        return Performance(missing=dict.fromkeys(wanted, f"the run has no {STEP_TIME}: its steps were not recorded"))
    if not math.isfinite(step_seconds) or step_seconds <= 0 or chips < 1:
        return Performance(missing=dict.fromkeys(wanted, f"{STEP_TIME} is {step_seconds:.6g} s on {chips} chips"))
    found = Performance()
    for name, amount in wanted.items():
        if name in {MFU, HFU}:
            continue
        found.values[name] = amount / step_seconds
    if config.tokens_per_step is not None:
        found.values[TOKENS_OF_CHIP] = config.tokens_per_step / step_seconds / chips
    utilised = {name: amount for name, amount in wanted.items() if name in {MFU, HFU}}
    return _with_utilisation(found, utilised, config, chip, chips, step_seconds) if utilised else found


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


def _with_utilisation(  # noqa: PLR0913, PLR0917  (the factors of one fraction)
    found: Performance, utilised: dict[str, float], config: EfficiencyConfig, chip: str, chips: int, seconds: float
) -> Performance:
    peak = peak_of(chip, config.precision)
    if peak is None:
        reason = f"the table of peaks has none of {chip} in {config.precision}"
        return Performance(found.values, {**found.missing, **dict.fromkeys(utilised, reason)})
    values, missing, warnings = dict(found.values), dict(found.missing), []
    for name, flops in utilised.items():
        share = flops / (seconds * chips * peak.flops)
        if share <= 1:
            values[name] = share * 100
            continue
        missing[name] = (
            f"{share * 100:.4g} % is impossible: {flops:.6g} FLOP a step in {seconds:.6g} s on {chips} chips with a "
            f"peak of {peak.flops:.6g} FLOP/s; one of these is wrong"
        )
        warnings.append(f"{name}: {missing[name]}")
    model = flops_of_step(config)
    formula = {"mfu.formula": model.formula} if model is not None else {}
    metadata = {**formula, "mfu.peak": f"{peak.flops:.6g} FLOP/s ({peak.source})"}
    return Performance(values, missing, tuple(warnings), metadata)
