"""`expressions` of a collection config: metrics that are computed from tags, other metrics and facts of the run."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from ml_metrics.config.aggregation import Strategy
from ml_metrics.config.formula import Of, formula
from ml_metrics.config.metric_facts import Better, Unit
from ml_metrics.config.problems import did_you_mean
from ml_metrics.config.strict import Strict
from ml_metrics.kinds import is_generated, may_be_own, without_strategy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ml_metrics.config.formula import Reference

FACTS = ("chips", "hosts", "slices", "peak_flops", "duration")
"""The names that are not of the run's tags and metrics, but of what it ran on."""


def _valid(text: str) -> str:
    formula(text)
    return text


Text = Annotated[str, AfterValidator(_valid)]


class Expression(Strict):
    """A metric that is computed."""

    expression: Text
    """The expression."""
    unit: Unit | None = None
    """The unit of its values, such as `tokens/s`."""
    better: Better | None = None
    """Whether `higher` or `lower` values are better, or `neither`."""


Expressions = dict[Annotated[str, Field(min_length=1, max_length=200)], Text | Expression]


def in_order(expressions: Mapping[str, Expression]) -> tuple[str, ...]:
    """Return the names so that each comes after those it needs. Raises ValueError if some need each other."""
    made = {f"{name}_{strategy}": name for name in expressions for strategy in Strategy}
    made |= {name: name for name in expressions}
    needed = {
        name: [made[each.name] for each in _others(one) if each.name in made] for name, one in expressions.items()
    }
    try:
        return tuple(TopologicalSorter(needed).static_order())
    except CycleError as error:
        circle = " needs ".join(reversed(error.args[1]))
        raise ValueError(
            f'{circle}: an expression cannot need itself; for a tag of its name, write tag("...")'
        ) from error


def check_names(expressions: Mapping[str, Expression]) -> None:
    """Raise ValueError if a name is taken, or if an expression needs what is measured after it."""
    for name, one in expressions.items():
        if not name.isprintable():
            raise ValueError(f"{name!r} cannot be the name of a metric")
        if name in FACTS:
            raise ValueError(f"{name!r} cannot be the name of an expression: it is a fact that expressions use")
        if is_generated(name) and not may_be_own(name):
            raise ValueError(f"{name!r} cannot be the name of an expression: it is that of a metric of every run")
        for reference in _others(one):
            if _is_measured_later(reference.name) and reference.name not in expressions:
                raise ValueError(
                    f"{name}: {reference.name} is measured after expressions are computed, so they cannot use it; "
                    f'for a tag of this name, write tag("{reference.name}")'
                )


def check_params(expressions: Mapping[str, Expression], params: Collection[str]) -> None:
    """Raise ValueError if an expression uses a parameter that the test does not declare."""
    for name, one in expressions.items():
        for each in formula(one.expression).references:
            if each.of is Of.PARAM and each.name not in params:
                near = did_you_mean(each.name, params)
                raise ValueError(f'{name}: param("{each.name}") is not declared in `params`{near}')


def _others(expression: Expression) -> list[Reference]:
    """Return the names that can be of other expressions, or of their metrics."""
    return [each for each in formula(expression.expression).references if each.of in {Of.ANY, Of.METRIC}]


def _is_measured_later(name: str) -> bool:
    """Whether a name is of goodput. A name like `step_time_p90` can also be that of a tag's metric."""
    return is_generated(name) and not may_be_own(name) and without_strategy(name) == name
