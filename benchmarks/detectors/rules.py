"""The rules that are compared: ours as it is shipped, and those of other projects, each with its source.

A rule sees the values of a metric up to the newest run, and greater values are worse. It returns the index of the first
run of the loss that it sees in the newest run, or None. A search returns the first index of each new level of a whole
series; run by run, it alarms once for each place.

To add a rule, write a function here (or a class, if it has to remember), and measure it:

    @rule("three runs above the thirty before", "https://example.org/where-it-comes-from")
    def three_above_thirty(values: Values) -> int | None:
        return len(values) - 3 if len(values) >= 33 and min(values[-3:]) > max(values[-33:-3]) else None

    python -m benchmarks.detectors --rule "three runs above the thirty before"
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib.util import find_spec
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.judge import change_points, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .noise import Values
    from .stories import Flags

    Rule = Callable[[Values], int | None]
    Search = Callable[[Values], list[int]]

NEAR, NEWEST = 5, 100
"""A place within so many runs of one that was reported is the same. So many newest values are searched after a run."""
START, TOGETHER = datetime(2026, 1, 1, tzinfo=UTC), 100
"""The first night of a replay, and how many metrics a replayed test has."""


@dataclass(frozen=True)
class Detector:
    """A rule as the bench asks it."""

    source: str
    fails: Callable[[Sequence[Values], Sequence[int]], list[Flags]]
    """Which runs of each series fail, from a given run on. Each answer depends on the values up to its run only."""
    places: Search | None
    """The first index of each new level of a whole series, for the better or the worse."""
    needs: str = ""
    """The package that it needs."""

    @property
    def is_here(self) -> bool:
        return not self.needs or find_spec(self.needs) is not None


RULES: dict[str, Detector] = {}


def rule(name: str, source: str, **options: float) -> Callable[[Any], Any]:
    """Add a rule, or a class whose objects are one for a series each."""

    def add(judge: Any) -> Any:
        def answers(values: Values, since: int = 0) -> list[int | None]:
            one = judge(**options) if isinstance(judge, type) else partial(judge, **options)
            first = 0 if isinstance(judge, type) else since
            return [None] * first + [one(values[: run + 1]) for run in range(first, len(values))]

        def fails(many: Sequence[Values], since: Sequence[int]) -> list[Flags]:
            return [np.array([each is not None for each in answers(*one)]) for one in zip(many, since, strict=True)]

        def places(values: Values) -> list[int]:
            found: list[int] = []
            for turned in (values, -values):
                said = answers(turned)
                found += [now for before, now in pairwise([None, *said]) if now is not None and before is None]
            return without_near(sorted(found))

        RULES[name] = Detector(source, fails, places)
        return judge

    return add


def search(name: str, source: str, needs: str = "", newest: int = NEWEST, **options: float) -> Callable[[Any], Any]:
    """Add a search of whole series."""

    def add(find: Any) -> Any:
        places = partial(find, **options)

        def fails(many: Sequence[Values], since: Sequence[int]) -> list[Flags]:
            return [reports(places, values, first, newest) for values, first in zip(many, since, strict=True)]

        RULES[name] = Detector(source, fails, places, needs)
        return find

    return add


def reports(find: Search, values: Values, since: int = 0, longest: int = NEWEST) -> Flags:
    """Fail in each run in which a search reports a place for the worse for the first time, or among the newest runs."""
    flags, reported = np.zeros(len(values), dtype=np.bool_), list[int]()
    for end in range(max(2, since), len(values) + 1):
        first = max(0, end - longest)
        newest = values[first:end]
        edges = [0, *find(newest), len(newest)]
        levels = [fmean(newest[start:stop]) for start, stop in pairwise(edges)]
        known = reported.copy()
        for place in (first + edges[at] for at in range(1, len(levels)) if levels[at] > levels[at - 1]):
            if same := [other for other in known if abs(place - other) <= NEAR]:
                known.remove(min(same, key=lambda other: abs(place - other)))
            else:
                reported.append(place)
                flags[end - 1] = True
            flags[end - 1] |= end - place <= NEAR
    return flags


def without_near(places: Sequence[int]) -> list[int]:
    """Leave out each place that follows another closely."""
    return [place for number, place in enumerate(places) if not number or place - places[number - 1] > NEAR]


def replayed(condition: dict[str, Any]) -> Callable[[Sequence[Values], Sequence[int]], list[Flags]]:
    """Judge by a condition of a test file, night by night, in the judge that tests use."""
    conditions = {"default": {"comparison": "less", **condition}}
    config = RegressionTestConfig.model_validate({"metric_success_conditions": conditions})

    def fails(many: Sequence[Values], _: Sequence[int]) -> list[Flags]:
        parts = (many[first : first + TOGETHER] for first in range(0, len(many), TOGETHER))
        return [flags for part in parts for flags in _replay(config, part)]

    return fails


def _replay(config: RegressionTestConfig, many: Sequence[Values]) -> list[Flags]:
    """Replay one test with a metric for each series. All end with the same run, so that none is missing at the end."""
    length = max(map(len, many))
    rows = [
        StoredMetric(f"{run:05}", START + timedelta(days=run), f"{number}", float(value), JobStatus.SUCCESS, None)
        for number, values in enumerate(many)
        for run, value in enumerate(values, start=length - len(values))
    ]
    failing = [np.zeros(length, dtype=np.bool_) for _ in many]
    for run, replayed_run in enumerate(replay(config, rows).runs):
        for verdict in replayed_run.judgement.verdicts:
            failing[int(verdict.metric)][run] = verdict.outcome is Outcome.FAIL
    return [flags[length - len(values) :] for flags, values in zip(failing, many, strict=True)]


# ours

OURS, DOCS = "`{comparison: less}`", "ours: [verdicts](../../docs/conditions.md)"
WAIT = {"wait_for_n_points_of_history": 10}
SPREADS = {"success_threshold": {"stddevs_from_mean": 4.0}, **WAIT}
MADS = {"success_threshold": {"mads_from_median": 5.0}, "min_change": {"percent": 3.0}, **WAIT}
BEST = {"success_threshold": {"percent_difference": 5.0}, "against": "best", **WAIT}
RULES[OURS] = Detector(DOCS, replayed({}), lambda values: [step.index for step in change_points(values.tolist())])
RULES["`stddevs_from_mean: 4`, wait 10"] = Detector(DOCS, replayed(SPREADS), None)
RULES["`mads_from_median: 5`, `min_change: {percent: 3}`"] = Detector(DOCS, replayed(MADS), None)
RULES["`percent_difference: 5`, `against: best`"] = Detector(DOCS, replayed(BEST), None)


@rule(
    "the older metrics handler, 4 sd, wait 10",
    "rebuilt: the run is part of its own mean",
)
class OlderHandler:
    """The run is among the values of its own mean and deviation; one that is out of bounds never enters the history."""

    def __init__(self, stddevs: float = 4.0, wait: int = 10) -> None:
        self.stddevs, self.wait, self.history = stddevs, wait, list[float]()

    def __call__(self, values: Values) -> int | None:
        with_itself = [*self.history, float(values[-1])]
        if len(with_itself) > self.wait:
            known = np.array(with_itself)
            if values[-1] >= known.mean() + self.stddevs * known.std():
                return len(values) - 1
        self.history = with_itself
        return None


# other projects


OTAVA = "apache/otava 0.8.0, otava/analysis.py"


@search("otava, tuned: p < .00001, 5 %", OTAVA, needs="otava", max_pvalue=1e-5, min_magnitude=0.05)
@search("otava, default", OTAVA, needs="otava")
def otava(values: Values, **options: float) -> list[int]:
    from otava.analysis import compute_change_points

    return [int(point.index) for point in compute_change_points(values.tolist(), **options)[0]]


@search("E-divisive, 100 permutations, newest 50", "Matteson and James, arXiv 1306.4933", newest=50)
def e_divisive(values: Values, permutations: int = 100) -> list[int]:
    random, found, parts = np.random.default_rng(0), [], [(0, len(values))]
    while parts:
        first, end = parts.pop()
        if end - first < 2 * NEAR:
            continue
        distances = np.abs(np.subtract.outer(values[first:end], values[first:end]))
        place, most = _most_divided(distances)
        for _ in range(permutations):
            order = random.permutation(end - first)
            if _most_divided(distances[np.ix_(order, order)])[1] >= most:
                break
        else:
            found.append(first + place)
            parts += [(first, first + place), (first + place, end)]
    return sorted(found)


def _most_divided(distances: Values) -> tuple[int, float]:
    """The place at which both sides differ most, and the energy statistic there."""
    count = len(distances)
    before = np.arange(2, count - 1)
    after = count - before
    sums = distances.sum(axis=1).cumsum()
    inside = 2 * np.tril(distances).sum(axis=1).cumsum()[before - 1]
    across = sums[before - 1] - inside
    rest = sums[-1] - inside - 2 * across
    within = inside / (before * (before - 1)) + rest / (after * (after - 1))
    energy = before * after / count * (2 * across / (before * after) - within)
    best = int(energy.argmax())
    return int(before[best]), float(energy[best])


@search("Perfherder, t > 7, 2 %", "mozilla/treeherder, treeherder/perfalert/perfalert/__init__.py", percent=2.0)
def perfherder(values: Values, percent: float, fore: int = 12, back: int = 24, least: float = 7.0) -> list[int]:
    t, seen = np.zeros(len(values) + 1), 0
    for place in range(2, len(values) - 1):
        old = values[max(0, place - min(max(seen, fore), back)) : place][::-1]
        t[place] = _weighted_t(old, values[place : place + fore])
        seen = 0 if t[place] > least else seen + 1
    peaks = [at for at in range(fore, len(values) - fore + 1) if t[at] > least and t[at] >= max(t[at - 1], t[at + 1])]
    means = [(fmean(values[at - fore : at]), fmean(values[at : at + fore])) for at in peaks]
    return [at for at, (old, new) in zip(peaks, means, strict=True) if abs(new - old) >= abs(old) * percent / 100]


def _weighted_t(old: Values, new: Values) -> float:
    """Student's t of two sides, nearest values first, with weights that fall linearly with the distance."""
    (left, error), (right, other) = (_weighted(side, _falling(len(side))) for side in (old, new))
    if error + other == 0:
        return 0.0 if left == right else np.inf
    return abs(right - left) / (error + other) ** 0.5


def _weighted(side: Values, weights: Values) -> tuple[float, float]:
    mean = float(weights @ side)
    away = side - mean
    return mean, float(away @ away) / (len(side) - 1) / len(side)


@cache
def _falling(count: int) -> Values:
    weights = np.arange(count, 0, -1.0)
    return weights / weights.sum()


RUPTURES = "deepcharles/ruptures 1.1.10; its guide has the penalty log(n) sigma²"


@search("ruptures Pelt, tuned: 20 log(n) sigma²", RUPTURES, needs="ruptures", penalty=20.0)
@search("ruptures Pelt, log(n) sigma²", RUPTURES, needs="ruptures", penalty=1.0)
def pelt(values: Values, penalty: float) -> list[int]:
    import ruptures

    noise = _neighbour_noise(values)
    if len(values) < 2 * NEAR or not noise:
        return []
    found = (
        ruptures.KernelCPD(kernel="linear", min_size=3).fit(values / noise).predict(pen=penalty * np.log(len(values)))
    )
    return [int(place) for place in found[:-1]]


@search("ruptures Binseg, log(n) sigma²", RUPTURES, needs="ruptures")
def binseg(values: Values) -> list[int]:
    import ruptures

    noise = _neighbour_noise(values)
    if len(values) < 2 * NEAR or not noise:
        return []
    return [int(one) for one in ruptures.Binseg(model="l2").fit(values / noise).predict(pen=np.log(len(values)))[:-1]]


def _neighbour_noise(values: Values) -> float:
    """Sigma, from the differences of neighbours, among which a step is one of many."""
    away = np.abs(np.diff(values))
    return float(np.median(away) / 0.954 or np.sqrt(np.mean(np.square(away)) / 2)) if len(away) else 0.0


BENCHER, SAMPLE = "bencherdev/bencher, lib/bencher_boundary/src/limits", 64


@rule("Bencher, z-score .99", BENCHER, boundary=0.99, is_t=False)
@rule("Bencher, t-test .99", BENCHER, boundary=0.99, is_t=True)
def bencher_normal(values: Values, *, boundary: float, is_t: bool) -> int | None:
    sample = values[max(0, len(values) - 1 - SAMPLE) : -1]
    if len(sample) < 2 or not (spread := float(sample.std())):
        return None
    limit = float(sample.mean()) + _deviations(boundary, len(sample) - 1 if is_t else None) * spread
    return len(values) - 1 if values[-1] > limit else None


@cache
def _deviations(share: float, freedom: int | None) -> float:
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(freedom, share) if freedom else ndtri(share))


@rule("Bencher, IQR 3", BENCHER, boundary=3.0)
def bencher_iqr(values: Values, boundary: float) -> int | None:
    sample = np.sort(values[max(0, len(values) - 1 - SAMPLE) : -1])
    if len(sample) < 2:
        return None
    low, middle, high = (
        float(np.interp(share * (len(sample) - 1), _places(len(sample)), sample)) for share in (0.25, 0.5, 0.75)
    )
    return len(values) - 1 if values[-1] > middle + boundary * (high - low) else None


@cache
def _places(count: int) -> Values:
    return np.arange(float(count))


@rule(
    "Conbench, lookback z 5",
    "conbench/conbench, conbench/entities/history.py, docs/pages/lookback_zscore.md",
    least=5.0,
)
def conbench(values: Values, least: float, commits: int = 100) -> int | None:
    """The deviations are those of the residuals: of each run from the mean of the runs before it."""
    newest = values[-2 * commits - 1 :]
    sums, places = np.concatenate(([0.0], np.cumsum(newest))), np.arange(1, len(newest))
    first = np.maximum(0, places - commits)
    residuals = newest[1:] - (sums[places] - sums[first]) / (places - first)
    before = np.concatenate(([0.0], residuals[:-1]))[-commits:]
    spread = float(before.std(ddof=1)) if len(before) > 1 else 0.0
    return len(values) - 1 if spread and residuals[-1] > least * spread else None


GITHUB = "benchmark-action/github-action-benchmark, src/write.ts: findAlerts"


@rule("the run before + 10 %", GITHUB, percent=10.0)
@rule("the run before + 5 %", GITHUB, percent=5.0)
@rule("the run before + 2 %", GITHUB, percent=2.0)
def run_before(values: Values, percent: float) -> int | None:
    if len(values) < 2:
        return None
    return len(values) - 1 if values[-1] - values[-2] > abs(values[-2]) * percent / 100 else None


@rule("PyTorch HUD, two runs + 5 %", "pytorch/test-infra, aws/lambda/benchmark_regression_summary_report", percent=5.0)
def hud(values: Values, percent: float, newest: int = 3, baseline: int = 7) -> int | None:
    """The newest two runs are beyond the median of the week before the newest three."""
    if len(values) < newest + baseline:
        return None
    level = float(np.median(values[-newest - baseline : -newest]))
    return len(values) - 2 if min(values[-2:]) - level > abs(level) * percent / 100 else None
