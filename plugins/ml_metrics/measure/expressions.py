"""Computing the metrics of `expressions`: from tags point by point, from other metrics, and from facts of the run."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.config.collection import FACTS, in_order
from ml_metrics.config.formula import Of, formula, reference_of
from ml_metrics.core.model import Metric, Series
from ml_metrics.core.text import did_you_mean
from ml_metrics.measure.aggregation import aggregate_tags, aggregation_of
from ml_metrics.measure.collected import is_wanted
from ml_metrics.measure.source import COMPUTED
from ml_metrics.measure.windows import increase, points

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.config.formula import Formula, Reference
    from ml_metrics.core.model import Workload
    from ml_metrics.measure.collected import Environment

    Values = NDArray[np.float64]


BINARY: dict[type[ast.operator], Callable[[Values, Values], Values]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
FUNCTIONS: dict[str, Callable[..., Values]] = {
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
    "abs": np.abs,
    "sqrt": np.sqrt,
    "log": np.log,
    "exp": np.exp,
}


def computed(tree: ast.expr, values: Mapping[Reference, Values]) -> Values:
    """The value of a valid expression.

    A result that is not finite at any place of the expression stays so: `1 / (1 / 0)` is not 0.
    """
    with np.errstate(all="ignore"):
        return _computed(tree, values)


def _computed(node: ast.expr, values: Mapping[Reference, Values]) -> Values:
    if (reference := reference_of(node)) is not None:
        return _finite(values[reference])
    match node:
        case ast.Constant(value=int() | float() as number):
            return np.array(number, np.float64)
        case ast.UnaryOp(op=op, operand=operand):
            value = _computed(operand, values)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(op=op, left=left, right=right):
            one, other = _computed(left, values), _computed(right, values)
            return _finite(BINARY[type(op)](one, other), one, other)
        case ast.Call(func=ast.Name(id=name), args=args):
            given = [_computed(argument, values) for argument in args]
            return _finite(FUNCTIONS[name](*given), *given)
        case _:
            raise AssertionError(ast.dump(node))


def _finite(result: Values, *given: Values) -> Values:
    """The result with NaN wherever it, or a number that it was made from, is not finite."""
    is_finite = reduce(np.logical_and, map(np.isfinite, given), np.isfinite(result))
    return np.where(is_finite, result, np.nan)


class UnknownNameError(Exception):
    """A name in an expression has no value in this run."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in expressions can refer to."""

    series: dict[str, Series]
    metrics: dict[str, Metric]
    missing: dict[str, str]
    environment: Environment
    workload: Workload | None
    sources: dict[str, list[Series]] = field(default_factory=dict)
    """By the name of an expression: the tags that its points were computed from."""
    numbers: dict[str, float] = field(default_factory=dict)
    """The results of expressions that are one number."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why an expression has no value, by its name."""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def look_up(self, reference: Reference, expression: str) -> Series | float:
        """What a name refers to: a fact, else a tag, else a metric. Raises UnknownNameError with the reason."""
        name = reference.name
        if reference.of is Of.PARAM:
            return _known(self.environment.param(name))
        if reference.of is Of.ANY and name in FACTS:
            if name in self.series:
                self._ambiguous(expression, name, "a fact of the run and a tag", "fact")
            return _known(self.environment.fact(name, self.workload))
        if reference.of is not Of.METRIC and name in self.series:
            if reference.of is Of.ANY and name in self.metrics:
                self._ambiguous(expression, name, "a tag and a metric", "tag")
            return self.series[name]
        if reference.of is not Of.TAG and (name in self.numbers or name in self.metrics):
            return self.numbers[name] if name in self.numbers else self.metrics[name].value
        raise UnknownNameError(self._why_unknown(reference))

    def _ambiguous(self, expression: str, name: str, both: str, counts: str) -> None:
        self.warnings.append(
            f'{expression}: {name!r} is {both}: the {counts} counts. tag("{name}") or metric("{name}") says which'
        )

    def _why_unknown(self, reference: Reference) -> str:
        name = reference.name
        if reference.of is not Of.TAG and (reason := self.failed.get(name) or self.missing.get(name)):
            return f"{name} is missing: {reason}"
        if reference.of is Of.TAG:
            return f"the run has no tag {name!r}{did_you_mean(name, self.series)}"
        if reference.of is Of.METRIC:
            return f"the run has no metric {name!r}{did_you_mean(name, self.metrics)}"
        nested = next((tag for tag in self.series if tag.startswith(f"{name}/")), None)
        if nested is not None:
            return f'the run has no tag or metric {name!r}; a tag with other characters is written tag("{nested}")'
        return f"the run has no tag or metric {name!r}{did_you_mean(name, [*self.series, *self.metrics, *FACTS])}"


def compute(names: Names, config: MetricCollectionConfig) -> None:
    """Add the metrics of all expressions to `names`, or the reasons for which they are missing."""
    taken = {*names.series, *names.metrics}
    for name in in_order(config.computed):
        if name in taken:
            what = "tag" if name in names.series else "metric"
            names.warnings.append(_taken(name, what))
            continue
        parsed = formula(config.computed[name].expression)
        try:
            values = {reference: names.look_up(reference, name) for reference in parsed.references}
            result = _result(name, parsed, values, names)
        except UnknownNameError as error:
            names.failed[name] = str(error)
            if is_wanted(name, config, included=True):
                names.missing.update(dict.fromkeys(_metrics_of(name, parsed, names, config), str(error)))
            continue
        _add(name, result, names, config)


def _add(name: str, result: Series | float, names: Names, config: MetricCollectionConfig) -> None:
    """Add the result of an expression. One that `tags_to_ignore` names is for other expressions only."""
    wanted = is_wanted(name, config, included=True)
    if isinstance(result, Series):
        names.series[name] = result
        aggregated = aggregate_tags({name: result} if wanted else {}, config, names.sources[name])
        names.missing.update(aggregated.missing)
        names.warnings.extend(aggregated.warnings)
        names.notes.extend(aggregated.notes)
        found = aggregated.metrics
    else:
        names.numbers[name] = result
        metric = Metric(name, result, name, COMPUTED, non_finite=int(not np.isfinite(result)))
        found = [metric] if wanted else []
    for metric in found:
        if names.metrics.setdefault(metric.name, metric) is not metric:
            names.warnings.append(_taken(metric.name, "metric"))


def _result(name: str, parsed: Formula, values: Mapping[Reference, Series | float], names: Names) -> Series | float:
    series = {one.tag: one for one in values.values() if isinstance(one, Series)}
    columns = {reference: np.array(one, np.float64) for reference, one in values.items() if not isinstance(one, Series)}
    if not series:
        return float(computed(parsed.tree, columns))
    step, wall_time, joined = _joined(list(series.values()), name, names.notes)
    sources = [source for tag, one in series.items() for source in names.sources.get(tag, [one])]
    names.sources[name] = list({source.tag: source for source in sources}.values())
    of_tag = dict(zip(series, joined, strict=True))
    columns |= {reference: of_tag[one.tag] for reference, one in values.items() if isinstance(one, Series)}
    return Series(".", name, step, wall_time, computed(parsed.tree, columns))


def _joined(
    found: Sequence[Series], name: str, notes: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.float64], list[NDArray[np.float64]]]:
    """The points of several tags at their common steps. Of a step that was written again, the last counts."""
    if len(found) == 1:
        return found[0].step, found[0].wall_time, [found[0].value]
    first = found[0]
    if increase(first.step) and all(np.array_equal(one.step, first.step) for one in found):
        return first.step, reduce(np.fmax, [one.wall_time for one in found]), [one.value for one in found]
    last = [np.unique(one.step[::-1], return_index=True) for one in found]
    common = reduce(np.intersect1d, [steps for steps, _ in last])
    tags = " and ".join(f"{one.tag} ({points(len(one))})" for one in found)
    if not len(common):
        raise UnknownNameError(f"no step is in all of {tags}")
    if any(len(one) != len(common) for one in found):
        notes.append(f"{name}: {len(common):,} steps are in all of {tags}, and the last point of each counts")
    rows = [len(one) - 1 - at[np.searchsorted(steps, common)] for one, (steps, at) in zip(found, last, strict=True)]
    wall_times = [one.wall_time[row] for one, row in zip(found, rows, strict=True)]
    return common, reduce(np.fmax, wall_times), [one.value[row] for one, row in zip(found, rows, strict=True)]


def _metrics_of(name: str, parsed: Formula, names: Names, config: MetricCollectionConfig) -> list[str]:
    """The metrics that a missing expression would have: those of a tag if it refers to one."""

    def is_of_points(one: Reference) -> bool:
        number = one.name in FACTS or one.name in {*names.numbers, *names.metrics, *names.missing}
        return one.of is Of.TAG or (one.of is Of.ANY and not number)

    if any(map(is_of_points, parsed.references)):
        return [f"{name}_{strategy}" for strategy in aggregation_of(name, config).strategies]
    return [name]


def _taken(name: str, what: str) -> str:
    return f"expressions: {name!r} is also a {what} of the run, which counts; rename the expression"


def _known(value: float | str) -> float:
    if isinstance(value, str):
        raise UnknownNameError(value)
    return value
