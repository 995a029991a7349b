"""The floating-point operations of a training step, by formula from a model's numbers.

A formula counts matrix products forward and backward: 6 for each parameter and token, and 12 for each layer, head,
element of a head and token of the sequence, of which causal attention needs half. The name of the formula is part of
the number: the same run has two utilisations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.config.efficiency import Attention, MixtureOfExperts

if TYPE_CHECKING:
    from ml_metrics.config.efficiency import EfficiencyConfig, Transformer

GIVEN = "given in the test file"
OF_PARAMETER, OF_ATTENTION = 6, 12


class Flops(NamedTuple):
    """A number of floating-point operations, and where it comes from."""

    number: float
    formula: str


def flops_of_step(config: EfficiencyConfig) -> Flops | None:
    """Return the operations of the model in a step on all chips together; None if the test file does not state them."""
    if config.flops_per_step is not None:
        return Flops(config.flops_per_step, GIVEN)
    if config.model_flops is None or config.tokens_per_step is None:
        return None
    model = config.model_flops.dense_transformer or config.model_flops.moe_transformer
    if model is None:
        return None
    name = f"{config.model_flops.kind}, attention {model.attention}"
    return Flops(config.tokens_per_step * flops_of_token(model), name)


def flops_of_token(model: Transformer) -> float:
    """Return the operations for one token, forward and backward."""
    used = model.active_parameters if isinstance(model, MixtureOfExperts) else model.parameters
    attention = OF_ATTENTION * model.layers * model.heads * model.head_size * model.sequence_length
    return OF_PARAMETER * used + (attention / 2 if model.attention is Attention.HALF else attention)
