"""How likely each place of a change is, given noisy values of some candidates.

Values before the change have one level, those after it another, both unknown, with one unknown noise. The probability
of the values for each place has a closed form (a normal distribution with a conjugate prior). A value far from both
levels only counts if it occurs again, so that no single run decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

NOWHERE = 0.2
"""The probability, before any run, that the change is not between the candidates."""
LEVEL_WEIGHT = 0.2
"""What is known about each level before any run, in runs."""
NOISE_WEIGHT = 0.5
"""The same for the noise."""
CLIP = 2.5
"""How many deviations a value counts at the most."""
FAR = 4.0
"""How many deviations from both levels a value is taken for an outlier."""
ENDS = 3
"""Values that are known from each end at least before any is taken for an outlier."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places where the change may be. Place k: the testable candidates before the k-th are good, the others bad."""

    testable: tuple[int, ...]
    probability: Values
    """One more than there are testable candidates: at the first place all are bad, at the last one all are good."""

    @property
    def best(self) -> int:
        """The most likely place."""
        return int(self.probability.argmax())

    def halving(self) -> int:
        """Return the candidate for which good and bad are most nearly equally likely."""
        is_bad = np.cumsum(self.probability)[:-1]
        return self.testable[int(np.abs(is_bad - 0.5).argmin())]


def places(candidates: Sequence[str], untestable: frozenset[int], values: Sequence[tuple[int, float]]) -> Places:
    """Return the places and their probabilities.

    Args:
        candidates: all of them, in the order of time.
        untestable: those that cannot be measured.
        values: each with the candidate that it was measured of.
    """
    testable = np.asarray([place for place in range(len(candidates)) if place not in untestable])
    before = _before(testable)
    if not values:
        return Places(tuple(testable.tolist()), before)
    ordered = sorted(values, key=lambda each: each[0])
    owners = np.asarray([owner for owner, _ in ordered])
    measured = np.asarray([value for _, value in ordered], dtype=np.float64)
    owners, measured = _without_outliers(owners, measured / (float(np.max(np.abs(measured))) or 1.0))
    likelihood = _log_likelihoods(measured)
    # place k splits the values between those of candidates before the k-th testable one and the others
    splits = np.searchsorted(owners, np.append(testable, len(candidates)), side="left")
    logs = np.log(before) + likelihood[splits]
    weights = np.exp(logs - logs.max())
    return Places(tuple(testable.tolist()), weights / weights.sum())


def _before(testable: NDArray[np.int64]) -> Values:
    """Return the probability of each place before any run: a change is equally likely in each candidate."""
    gaps = np.diff(testable).astype(np.float64)
    inside = (1 - NOWHERE) * gaps / max(1.0, float(gaps.sum()))
    return np.concatenate(([NOWHERE / 2], inside, [NOWHERE / 2]))


def _without_outliers(owners: NDArray[np.int64], values: Values) -> tuple[NDArray[np.int64], Values]:
    """Return what counts of the values, which are sorted by candidate.

    A value far from both levels is left out, so that its candidate is measured again. If another value of the same
    candidate is as far, both count, moved closer.
    """
    if len(values) < 2 * ENDS:
        return owners, values
    size = max(ENDS, len(values) // 4)
    ends = values[:size], values[-size:]
    levels = sorted(float(np.median(end)) for end in ends)
    spread = 1.4826 * float(np.median(np.abs(np.concatenate([end - np.median(end) for end in ends]))))
    if not spread:
        return owners, values
    low, high = levels
    usual = np.clip(values, low - CLIP * spread, high + CLIP * spread)
    is_far = (values < low - FAR * spread) | (values > high + FAR * spread)
    again = [
        np.sum(is_far & (owners == owner) & (usual == value)) > 1 for owner, value in zip(owners, usual, strict=True)
    ]
    kept = ~is_far | np.asarray(again)
    return owners[kept], usual[kept]


def _log_likelihoods(values: Values) -> Values:
    """Return the logarithm of the likelihood, up to a constant, if the first k values have one level, for each k."""
    count, values = len(values), values - values.mean()
    values = values / (float(np.max(np.abs(values))) or 1.0)
    first = np.arange(count + 1)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    squares = float(np.sum(np.square(values)))
    rest, counts = np.full(count + 1, squares), np.zeros(count + 1)
    for number, total in ((first, sums), (count - first, sums[-1] - sums)):
        rest -= np.square(total) / (number + LEVEL_WEIGHT)
        counts += np.log(LEVEL_WEIGHT / (number + LEVEL_WEIGHT)) / 2
    noise = max(squares / count / 2, 1e-12)
    logs: Values = counts - (NOISE_WEIGHT + count / 2) * np.log(NOISE_WEIGHT * noise + np.maximum(rest, 0.0) / 2)
    return logs
