"""Fits the weights by which a change of level is certain to what people marked.

A place that most people mark is a change; one that nobody marks is none; the others count neither way. The places are
all candidates of a series and, in further rounds, those that remain while the least certain ones are removed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.changepoints import best_edges, certain_places, certainty_of, features, in_noise_units

from .real import near

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .real import Labelled

    Place = tuple[int, int, int]

ROUNDS = 3
DOUBTFUL = 0.15
"""The certainty up to which places are removed before a further round."""
SHRINKAGE = 1.0
"""How strongly weights of standardised features are drawn towards 0."""


class Candidates:
    """The candidates of a labelled series, with their features, each computed once."""

    def __init__(self, series: Labelled) -> None:
        """Search for the candidates."""
        self.series = series
        self.agreed, self.marks = series.agreed(), series.marks
        self._calm = in_noise_units(np.asarray(series.values, dtype=np.float64))
        self._edges = [] if self._calm is None else best_edges(self._calm)
        self._features: dict[Place, tuple[float, ...]] = {}

    def all(self) -> list[Place]:
        """Return every candidate."""
        return [(left, edge, right) for (left, edge), (_, right) in pairwise(pairwise(self._edges))]

    def remaining(self, weights: Sequence[float], certainty: float) -> list[Place]:
        """Return the places that are certain enough."""
        return certain_places(self._edges, lambda *place: certainty_of(self.features(place), weights), certainty)

    def features(self, place: Place) -> tuple[float, ...]:
        """Return the features of a place."""
        if place not in self._features and self._calm is not None:
            self._features[place] = features(self._calm, *place)
        return self._features[place]

    def label(self, place: Place) -> bool | None:
        """Return whether most people marked a place; None if only some did."""
        _, edge, _ = place
        return True if near(edge, self.agreed) else None if near(edge, self.marks) else False


def fitted_weights(series: Iterable[Candidates]) -> tuple[float, ...]:
    """Return the bias and the weights of a logistic regression of the labels of the places."""
    series = list(series)
    rows, labels = _examples((one, one.all()) for one in series)
    weights = _regression(rows, labels)
    for _ in range(ROUNDS):
        more, their_labels = _examples((one, one.remaining(weights, DOUBTFUL)) for one in series)
        weights = _regression(rows + more, labels + their_labels)
    return weights


def _examples(places: Iterable[tuple[Candidates, list[Place]]]) -> tuple[list[tuple[float, ...]], list[bool]]:
    rows, labels = [], []
    for one, its_places in places:
        for place in its_places:
            label = one.label(place)
            if label is not None:
                rows.append(one.features(place))
                labels.append(label)
    return rows, labels


def _regression(rows: Sequence[tuple[float, ...]], labels: Sequence[bool]) -> tuple[float, ...]:
    """Fit by Newton's method."""
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
