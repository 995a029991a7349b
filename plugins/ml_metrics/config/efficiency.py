"""`efficiency`: what a run's chips cost, and what one step of its training computes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from ml_metrics.config.strict import OneOf, Strict

Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[float, Field(gt=0, le=1e30)]


class Purchase(StrEnum):
    """How the chips of a run were bought."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"
    RESERVED = "reserved"


class Attention(StrEnum):
    """How much of a causal attention matrix counts. The two give different numbers for the same run."""

    WHOLE = "whole"
    HALF = "half"


class Transformer(Strict):
    """The numbers of a transformer that decide what a step computes."""

    parameters: Amount
    """All parameters of the model."""
    layers: Count
    """The number of layers with attention."""
    heads: Count
    """The attention heads of a layer."""
    head_size: Count
    """The size of a head."""
    sequence_length: Count
    """The tokens of a sequence."""
    attention: Attention
    """`whole` counts the whole attention matrix, `half` only the half of it that causal attention needs."""


class MixtureOfExperts(Transformer):
    """The numbers of a transformer of which each token uses some experts only."""

    active_parameters: Amount
    """The parameters that one token uses."""

    @model_validator(mode="after")
    def active_are_some(self) -> Self:
        """Reject more active parameters than there are."""
        if self.active_parameters > self.parameters:
            raise ValueError("`active_parameters` should not be more than `parameters`, which are all of the model")
        return self


class ModelFlops(OneOf):
    """A formula for the floating-point operations of a step, with the model's numbers."""

    noun: ClassVar[str] = "formula"

    dense_transformer: Transformer | None = None
    """A transformer of which each token uses all parameters."""
    moe_transformer: MixtureOfExperts | None = None
    """A transformer of which each token uses some experts only."""


class EfficiencyConfig(Strict):
    """What the chips of a run cost, and what one step of its training computes."""

    region: Annotated[str, Field(min_length=1)] | None = None
    """The region of its chips, as in the price book. Default: that of the node selector, the cluster, or the book."""
    purchase: Purchase | None = None
    """How its chips are bought: `spot`, `on_demand` or `reserved`. Default: by the node selector, or the book."""
    tokens_per_step: Amount | None = None
    """The tokens of a step on all chips together."""
    samples_per_step: Amount | None = None
    """The samples of a step on all chips together."""
    flops_per_step: Amount | None = None
    """The floating-point operations of the model in a step on all chips together, without recomputation."""
    model_flops: ModelFlops | None = None
    """A formula for them, with the model's numbers, instead of `flops_per_step`."""
    hardware_flops_per_step: Amount | None = None
    """Those that the hardware executes in a step, recomputation included."""
    precision: Annotated[str, Field(min_length=1)] = "bf16"
    """The precision of the matrix products, for the peak of the chip: `bf16`, `fp16`, `fp8`, `int8`, `tf32`, `fp32`."""
    peak_of: Annotated[str, Field(min_length=1)] | None = None
    """The device whose peak counts, as in the table of peaks: `h100-pcie`. Default: the chip of the accelerator."""

    @model_validator(mode="after")
    def one_number(self) -> Self:
        """Reject two answers to one question, and a formula for a token without the number of tokens."""
        if self.model_flops is not None and self.flops_per_step is not None:
            raise ValueError("give `flops_per_step` or `model_flops`, not both: one of them would have no effect")
        if self.model_flops is not None and self.tokens_per_step is None:
            raise ValueError("`model_flops` needs `tokens_per_step`: its formulas are for one token")
        model, hardware = self.flops_per_step, self.hardware_flops_per_step
        if model is not None and hardware is not None and hardware < model:
            raise ValueError("`hardware_flops_per_step` should not be less than `flops_per_step`, which it includes")
        return self
