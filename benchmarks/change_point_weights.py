"""The weights by which a change of level is certain, fitted to what people marked on labelled series.

A place that at least three people mark is a change; one that nobody marks is none; the others count neither way. The
places are all candidates of a series and those that remain while the least certain ones are removed.

The labelled series may not be shipped: they are read from `../shared/changepoints` if that folder exists.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.judge.changepoint import certain_places
from ml_metrics.judge.contrast import WEIGHTS, certainty_of, features
from ml_metrics.judge.noise_units import in_noise_units
from ml_metrics.judge.segments import best_edges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Place = tuple[int, int, int]

SHARED = Path(__file__).parents[2] / "shared"
FILE = SHARED / "changepoints" / "series.json.gz"
MARGIN = 5
"""Marks this close to each other are marks of one place."""
MAJORITY = 3
ROUNDS = 3
DOUBTFUL = 0.15
"""The certainty up to which places are removed before a further round."""
SHRINKAGE = 1.0


@dataclass(slots=True)
class Labelled:
    """A series and the places that each person marked."""

    name: str
    values: list[float]
    people: list[list[int]]
    edges: list[int] = field(init=False)
    """Of the best division into segments."""
    _calm: NDArray[np.float64] | None = field(init=False)
    _features: dict[Place, tuple[float, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Search for candidates."""
        self._calm = in_noise_units(np.asarray(self.values, dtype=np.float64))
        self.edges = [] if self._calm is None else best_edges(self._calm)

    def features(self, place: Place) -> tuple[float, ...]:
        """Return the features of a place, computed once."""
        if place not in self._features and self._calm is not None:
            self._features[place] = features(self._calm, *place)
        return self._features[place]

    def places(self, weights: Sequence[float], certainty: float) -> list[Place]:
        """Return the places that are certain enough."""
        return certain_places(self.edges, lambda *place: certainty_of(self.features(place), weights), certainty)

    def marked(self) -> list[int]:
        """Return the places that most people mark, those with the most marks first."""
        marks = sorted({mark for one in self.people for mark in one})
        votes = {
            mark: (sum(any(abs(each - mark) <= MARGIN for each in one) for one in self.people), self._exact(mark))
            for mark in marks
        }
        kept: list[int] = []
        for mark in sorted(marks, key=lambda mark: (votes[mark], mark), reverse=True):
            if votes[mark][0] >= MAJORITY and all(abs(mark - other) > MARGIN for other in kept):
                kept.append(mark)
        return kept

    def label(self, index: int) -> bool | None:
        """Return whether most people mark a place; None if only some do."""
        if any(abs(index - mark) <= MARGIN for mark in self.marked()):
            return True
        return None if any(abs(index - mark) <= MARGIN for one in self.people for mark in one) else False

    def _exact(self, mark: int) -> int:
        return sum(mark in one for one in self.people)


@cache
def labelled_series(file: Path = FILE) -> list[Labelled]:
    """Return the labelled series by name; none if the file does not exist."""
    if not file.exists():
        return []
    with gzip.open(file) as opened:
        document: dict[str, dict[str, Any]] = json.load(opened)
    return [Labelled(name, one["values"], one["people"]) for name, one in sorted(document.items())]


def fitted_weights(series: Iterable[Labelled]) -> tuple[float, ...]:
    """Return the weights of a logistic regression of the labels of the places."""
    series = list(series)
    rows, labels = _examples(series, None)
    weights = _regression(rows, labels)
    for _ in range(ROUNDS):
        more, their_labels = _examples(series, weights)
        weights = _regression(rows + more, labels + their_labels)
    return weights


def _examples(
    series: Iterable[Labelled], weights: Sequence[float] | None
) -> tuple[list[tuple[float, ...]], list[bool]]:
    """Return the features and the labels of all candidates, or of those that the weights leave."""
    rows, labels = [], []
    for one in series:
        edges = one.edges
        places = (
            list(zip(edges, edges[1:], edges[2:], strict=False)) if weights is None else one.places(weights, DOUBTFUL)
        )
        for place in places:
            label = one.label(place[1])
            if label is not None:
                rows.append(one.features(place))
                labels.append(label)
    return rows, labels


def _regression(rows: Sequence[tuple[float, ...]], labels: Sequence[bool]) -> tuple[float, ...]:
    """Return the bias and the weights of a logistic regression, by Newton's method, shrunk as standardised features."""
    raw = np.array(rows)
    middle, spread = raw.mean(axis=0), raw.std(axis=0) + 1e-9
    features = np.column_stack([np.ones(len(raw)), (raw - middle) / spread])
    target = np.array(labels, dtype=np.float64)
    shrinkage = SHRINKAGE * np.diag([0.0, *np.ones(raw.shape[1])])
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        share = 1 / (1 + np.exp(-features @ weights))
        curvature = features.T @ (features * (share * (1 - share))[:, None]) + shrinkage
        weights += np.linalg.solve(curvature, features.T @ (target - share) - shrinkage @ weights)
    slopes = weights[1:] / spread
    return (float(weights[0] - slopes @ middle), *map(float, slopes))


def main() -> None:
    """Print the weights that are shipped and those that the labelled series give."""
    series = labelled_series()
    if not series:
        print(f"no labelled series: {FILE} does not exist")
        return
    for name, weights in {"shipped": WEIGHTS, f"fitted to {len(series)} series": fitted_weights(series)}.items():
        print(f"{name:<24} {'  '.join(f'{weight:>7.3f}' for weight in weights)}")


if __name__ == "__main__":
    main()
