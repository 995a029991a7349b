"""Compares repeats that exist: the values of both arms from files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.compare.answer import compared
from ml_metrics.compare.spending import LEVEL
from ml_metrics.config.metric_facts import known_about
from ml_metrics.errors import UnreadableInputError
from ml_metrics.judge.input_files import number_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.compare.answer import Compared
    from ml_metrics.compare.arms import Block
    from ml_metrics.config.metric_facts import MetricFacts

    Repeats = Mapping[str, Sequence[float]]

NAN = float("nan")


def read_repeats(path: str) -> dict[str, list[float]]:
    """Read `{metric: [values]}`, oldest value first, with null for a run that did not measure the metric."""
    try:
        document = json.loads(storage.read_bytes(path).decode("utf-8-sig"), object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UnreadableInputError(f"{path}: should hold one JSON object: {{metric: [values]}}")
    return {metric: _values(f"{path}: {metric}", values) for metric, values in document.items()}


def compare_repeats(
    base: Repeats,
    candidate: Repeats,
    effect: float,
    *,
    facts: Mapping[str, MetricFacts],
    in_turns: bool = False,
    together: bool = False,
) -> list[Compared]:
    """Return the comparison of each metric, in the order of the base.

    Args:
        base: the values of each metric, oldest first.
        candidate: the same for the candidate.
        effect: the smallest change that matters, in percent.
        facts: what a config states about metrics.
        in_turns: whether values at the same place were measured one after the other.
        together: whether the level holds for all metrics together, instead of for each.
    """
    metrics = list(dict.fromkeys([*base, *candidate]))
    level = LEVEL / len(metrics) if together and metrics else LEVEL
    found = []
    for metric in metrics:
        values, others = base.get(metric, ()), candidate.get(metric, ())
        kind = known_about(metric, facts)
        blocks = _in_turns(metric, values, others) if in_turns else [(values, others)]
        found.append(compared(metric, blocks, effect, better=kind.better, unit=kind.unit, level=level))
    return found


def _in_turns(metric: str, base: Sequence[float], candidate: Sequence[float]) -> list[Block]:
    """Return blocks of two values of each arm; an odd last value makes a block of its own."""
    if base and candidate and len(base) != len(candidate):
        raise UnreadableInputError(
            f"{metric}: {len(base)} and {len(candidate)} values were not measured in turns: write null for a run"
            " without a value"
        )
    count = max(len(base), len(candidate))
    return [(base[place : place + 2], candidate[place : place + 2]) for place in range(0, count, 2)]


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return found


def _values(where: str, values: Any) -> list[float]:
    listed = values if isinstance(values, list) else [values]
    return [
        NAN if value is None else number_in(f"{where}[{place}]", value) for place, value in enumerate(listed)
    ]
