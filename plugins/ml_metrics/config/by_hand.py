"""What the policy refuses in a manual run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.params import RUN_OVERRIDES, same
from ml_metrics.config.trial import NOTIFY, addresses_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.policy import Policy


def refused_by_hand(test: TestDefinition, given: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    """Yield the input of a run that the policy does not allow."""
    allowed = policy.by_hand
    if allowed is not None:
        for name in RUN_OVERRIDES:
            if name not in test.params and name not in allowed and given.get(name):
                yield f"`{name}` cannot be stated for a single run{_which(allowed)}"
        for name, param in test.params.items():
            if "params" not in allowed and name in given and not same(given[name], param.default):
                yield f"the parameter {name!r} cannot be changed for a single run{_which(allowed)}"
    for address in addresses_of(test, given):
        if not policy.allows("recipients", address):
            yield f"{address!r} is not in `recipients` of the policy"


def addresses_of(test: TestDefinition, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the addresses that a manual run names for its verdict."""
    return () if NOTIFY in test.params else addresses_in(given.get(NOTIFY))


def _which(allowed: tuple[str, ...]) -> str:
    return f": `by_hand` of the policy has {', '.join(allowed) or 'nothing'}"
