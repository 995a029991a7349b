"""Finds the candidate from which on a metric has another level, by noisy measurements of few of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import Sweep
from ml_metrics.core.text import printable
from ml_metrics.core.units import quantities
from ml_metrics.judge.compare.answer import escaped
from ml_metrics.judge.compare.curves import ValueOrCurve, beside, curve_of, decided
from ml_metrics.judge.compare.plan import BASE, CANDIDATE, FEWEST_RUNS, MeasuredRun, Plan, decisions, next_step
from ml_metrics.judge.compare.statistics import Shift
from ml_metrics.judge.noise import MEDIAN_ERROR, error_of_mean, middle, spread_of, spread_of_distances
from ml_metrics.judge.probe import Probe, State

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places where the change may be. Place k: the testable candidates before the k-th are good, the others bad."""

    testable: tuple[int, ...]
    probability: Values
    """One more than there are testable candidates: at the first place all are bad, at the last one all are good."""

    @property
    def best(self) -> int:
        return int(self.probability.argmax())

    def sides(self, place: int) -> tuple[int, ...]:
        """The last good candidate and the first bad one, if there are both."""
        return self.testable[max(0, place - 1) : place + 1]

    def halving(self) -> int:
        """The candidate for which good and bad are most nearly equally likely."""
        is_bad = np.cumsum(self.probability)[:-1]
        return self.testable[int(np.abs(is_bad - 0.5).argmin())]


def places(candidates: Sequence[str], untestable: frozenset[int], values: Sequence[tuple[int, float]]) -> Places:
    """`values`: each with the candidate that it was measured of; both ends have some."""
    testable = np.asarray([place for place in range(len(candidates)) if place not in untestable])
    # before any run, a change is equally likely in each candidate, and at neither place with .2
    gaps = np.diff(testable).astype(np.float64)
    before = np.concatenate(([0.1], 0.8 * gaps / max(1.0, float(gaps.sum())), [0.1]))
    ordered = sorted(values, key=lambda each: each[0])
    owners = np.asarray([owner for owner, _ in ordered])
    measured = np.asarray([value for _, value in ordered], dtype=np.float64)
    measured /= float(np.max(np.abs(measured))) or 1.0
    likelihood = _log_likelihoods(measured, int(np.sum(owners <= 0)), int(np.sum(owners >= len(candidates) - 1)))
    # place k splits the values between those of candidates before the k-th testable one and the others
    splits = np.searchsorted(owners, np.append(testable, len(candidates)), side="left")
    logs = np.log(before) + likelihood[splits]
    weights = np.exp(logs - logs.max())
    return Places(tuple(testable.tolist()), weights / weights.sum())


def _log_likelihoods(values: Values, good: int, bad: int) -> Values:
    """The logarithm of the likelihood, up to a constant, if the first k values have one level, for each k.

    `good`, `bad`: how many values are of each end. One value in twenty says nothing, since it is anywhere within twenty
    noises: one value never decides. Beyond both levels, a value counts as 2.5 noises away. If the
    levels are more than eight noises apart, the noise counts as larger. The level of each end is tried at errors of its
    median, and the noise at multiples of its estimate.
    """
    ends = values[:good], values[-bad:]
    levels = [float(np.median(end)) for end in ends]
    apart = abs(levels[1] - levels[0])
    distances = np.concatenate([np.abs(end - level) for end, level in zip(ends, levels, strict=True)])
    noise = max(spread_of_distances(np.sort(distances).tolist()), apart / 8) or 1.0
    usual = np.clip(values, min(levels) - 2.5 * noise, max(levels) + 2.5 * noise)
    scales = noise * np.asarray([0.75, 1.0, 1.35])

    def sums(end: int) -> Values:
        """Of each value, and all before it, if they have the level of an end: by its guesses and those of the noise."""
        error = MEDIAN_ERROR * noise * error_of_mean(len(ends[end]), 0.0)
        guesses = levels[end] + error * np.asarray([-1.6, -0.8, 0.0, 0.8, 1.6])
        distance = (usual[:, None, None] - guesses[:, None]) / scales
        density = 0.95 * np.exp(-np.square(distance) / 2) / math.sqrt(2 * math.pi) + 0.05 / 20
        return np.concatenate((np.zeros((1, *distance.shape[1:])), np.cumsum(np.log(density / scales), axis=0)))

    before, after = sums(0), sums(1)
    guesses = before[:, :, None] + (after[-1] - after)[:, None]
    logs: Values = np.logaddexp.reduce(guesses.reshape(len(values) + 1, -1), axis=1)
    return logs


def document(search: Search, probes: Sequence[Probe], found: Found) -> dict[str, Any]:
    return {
        "found": found.is_found,
        "good": found.good,
        "bad": found.bad,
        "between": list(found.between),
        "certainty": found.certainty,
        "reason": found.reason,
        "runs": len(probes),
        "probes": [
            {"candidate": search.candidates[probe.candidate], "value": probe.value, "state": probe.state.value}
            for probe in _in_numbers(search, probes).probes
        ],
    }


def markdown(search: Search, probes: Sequence[Probe], found: Found, unit: str = "") -> str:
    certainty = "" if found.certainty is None else f" ({found.certainty:.1%} certain)"
    lines = [f"**{escaped(found.reason)}**{certainty}", "", "| | candidate | values |", "| ---: | --- | --- |"]
    shown = _in_numbers(search, probes).probes
    for place in sorted({probe.candidate for probe in probes}):
        own = [probe for probe in shown if probe.candidate == place]
        numbers = quantities([None if isinstance(probe.value, Sweep) else probe.value for probe in own], unit)
        values = ", ".join(
            probe.state.value if probe.value is None else text for probe, text in zip(own, numbers, strict=True)
        )
        lines.append(f"| {place + 1} | {escaped(search.candidates[place])} | {values} |")
    return "\n".join(lines)


def junit(metric: str, found: Found) -> str:
    """The case has failed if the change was found, and is an error if there is no answer."""
    kind = "failure" if found.is_found else "" if found.is_answer else "error"
    counts = f'failures="{int(kind == "failure")}" errors="{int(kind == "error")}"'
    case = f'  <testcase classname="bisect" name={quoteattr(printable(metric))}'
    inside = f"><{kind} message={quoteattr(printable(found.reason))}/></testcase>" if kind else "/>"
    head = f'<testsuite name="ml-metrics bisect" tests="1" {counts} skipped="0">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, f"{case}{inside}", "</testsuite>", ""])


CERTAIN = 0.97


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched."""

    candidates: tuple[str, ...]
    """In the order of time: the first one is known to be good, the last one to be bad."""
    max_runs: int
    good: tuple[ValueOrCurve, ...] = ()
    """Values of the good level that were measured before, or curves."""
    bad: tuple[ValueOrCurve, ...] = ()
    effect: float = 2.0
    """The smallest change that matters, in percent: ends that differ by less are equivalent."""
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.candidates) < 2:
            raise ConfigError(f"candidates: {len(self.candidates)} given: a search needs a good and a bad one")
        if len(set(self.candidates)) < len(self.candidates):
            twice = next(one for one in self.candidates if self.candidates.count(one) > 1)
            raise ConfigError(f"candidates: {twice!r} is listed twice")
        if self.max_runs < 1:
            raise ConfigError(f"max_runs: {self.max_runs}: a search needs a run at least")
        if not self.references_differ() and self.max_runs < FEWEST_RUNS:
            raise ConfigError(
                f"max_runs: {self.max_runs} cannot show that the ends differ: that takes {FEWEST_RUNS} runs or more,"
                " or values of good and bad runs from the history"
            )

    @classmethod
    def from_document(cls, asked: Mapping[str, Any]) -> Search:
        try:
            good, bad = (tuple(curve_of("", one) or one for one in asked[name]) for name in ("good", "bad"))
            limits = {name: asked[name] for name in ("max_runs", "effect", "seed")}
            return cls(tuple(asked["candidates"]), good=good, bad=bad, **limits)
        except (KeyError, TypeError) as error:
            raise ConfigError(f"the journal of the search cannot be read: {error!r}") from error

    @property
    def last(self) -> int:
        """The bad end."""
        return len(self.candidates) - 1

    def references_differ(self) -> bool:
        return decided([(self.good, self.bad)], self.effect, 0.01).shift in {Shift.HIGHER, Shift.LOWER}


class _Numbers(NamedTuple):
    """What was measured, in numbers."""

    good: Sequence[float]
    bad: Sequence[float]
    probes: Sequence[Probe]
    where: str = ""
    """Of which part of a curve they are, in percent of the good ones."""


def _in_numbers(search: Search, probes: Sequence[Probe]) -> _Numbers:
    """Curves have numbers once good and bad ones were measured; one that does not reach as far is broken."""
    ends: list[list[ValueOrCurve | None]] = [[*search.good], [*search.bad], []]
    for probe in probes:
        ends[{0: 0, search.last: 1}.get(probe.candidate, 2)].append(probe.value)
    curves = [[one for one in end if isinstance(one, Sweep)] for end in ends]
    where, found = (beside(*curves) if any(curves) else None) or ("", {})

    def number(one: ValueOrCurve | None) -> float | None:
        value = found.get(one) if isinstance(one, Sweep) else one
        return value if value is not None and math.isfinite(value) else None

    shown = []
    for probe in probes:
        value = number(probe.value)
        is_broken = value is None and isinstance(probe.value, Sweep) and bool(found)
        shown.append(replace(probe, value=value, state=State.BROKEN if is_broken else probe.state))
    good, bad = ([value for one in end if (value := number(one)) is not None] for end in (search.good, search.bad))
    return _Numbers(good, bad, shown, where)


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search."""

    reason: str
    is_found: bool = field(default=False, kw_only=True)
    is_answer: bool = field(default=True, kw_only=True)
    """Whether the question is answered, also by that there is no change; not if it could not be measured in time."""
    good: str | None = None
    """The last candidate before the change that was or could be measured."""
    bad: str | None = None
    """The first one after it."""
    certainty: float | None = None
    between: tuple[str, ...] = field(default=())
    """Candidates between both that could not be measured: the change may be in any of them, too."""


def next_probe(search: Search, probes: Sequence[Probe]) -> int | Found:
    numbers = _in_numbers(search, probes)
    untestable = _untestable(numbers.probes)
    if len(untestable) == len(search.candidates):
        return Found("no candidate can be measured", is_answer=False)
    if not search.references_differ():
        step = _compared_ends(search, probes, untestable)
        if step is not None:
            return step
    # values of the history stand before the first candidate and after the last one
    history = [*((-1, value) for value in numbers.good), *((search.last + 1, value) for value in numbers.bad)]
    finite = [(probe.candidate, probe.value) for probe in numbers.probes if isinstance(probe.value, float | int)]
    known = places(search.candidates, untestable, [*history, *finite])
    best, probe = known.best, known.halving()
    if known.probability[best] >= CERTAIN:
        witnesses = Counter(place for place, _ in finite)
        # a single value may be an outlier that looks like the other level
        unsure = [side for side in known.sides(best) if witnesses[side] < 2]
        if not unsure:
            return _answer(search, known, best, numbers.where)
        probe = unsure[0]
    return _budget(search, known) if len(probes) >= search.max_runs else probe


def _compared_ends(search: Search, probes: Sequence[Probe], untestable: frozenset[int]) -> int | Found | None:
    """The end to measure next, or that the ends do not differ; None once they do."""
    for end, name in ((0, "good"), (search.last, "bad")):
        if end in untestable:
            return Found(f"the {name} end, {search.candidates[end]}, cannot be measured", is_answer=False)
    arms = {0: BASE, search.last: CANDIDATE}
    ends = [
        MeasuredRun(arms[probe.candidate], {"value": probe.value})
        for probe in probes
        if probe.candidate in arms and probe.value is not None  # the others are repeated
    ]
    plan = Plan(search.effect, search.max_runs, seed=search.seed)
    step = next_step(plan, ends)
    if step.runs and len(probes) < search.max_runs:
        return 0 if step.runs[0] == BASE else search.last
    decision = None if step.runs else decisions(plan, ends, ["value"])["value"]
    if decision is not None and decision.found.shift in {Shift.HIGHER, Shift.LOWER}:
        return None
    first, last = search.candidates[0], search.candidates[-1]
    return Found(f"nothing found: between {first} and {last}, there is no more than noise")


def _untestable(probes: Sequence[Probe]) -> frozenset[int]:
    broken: dict[int, int] = {}
    found = set()
    for probe in probes:
        broken[probe.candidate] = broken.get(probe.candidate, 0) + 1 if probe.state is State.BROKEN else 0
        if probe.state is State.UNTESTABLE or broken[probe.candidate] >= 3:
            found.add(probe.candidate)
    return frozenset(found)


def _answer(search: Search, known: Places, best: int, part: str) -> Found:
    certainty = float(known.probability[best])
    if not 0 < best < len(known.testable):
        end, level = (search.candidates[-1], "good") if best else (search.candidates[0], "bad")
        return Found(f"nothing found: {end} is as {level} as the others", certainty=certainty)
    good, bad = known.testable[best - 1], known.testable[best]
    between = search.candidates[good + 1 : bad]
    where = f"after {search.candidates[good]}, by" if between else "with"
    return Found(
        f"the level changed {where} {search.candidates[bad]}{part and f': {part}'}",
        search.candidates[good],
        search.candidates[bad],
        round(certainty, 4),
        between,
        is_found=True,
    )


def _budget(search: Search, known: Places) -> Found:
    spent, inside = f"the budget of {search.max_runs} runs is spent", known.probability[1:-1]
    if inside.sum() < 0.5:
        return Found(f"{spent}, and no change was found", certainty=round(1 - inside.sum(), 4), is_answer=False)
    place = int(inside.argmax())
    good, bad = (search.candidates[side] for side in known.testable[place : place + 2])
    certainty = round(float(inside[place]), 4)
    reason = f"{spent}; the most likely place is {bad}, with {certainty:.0%}"
    return Found(reason, good, bad, certainty, is_answer=False)


LEAST, MOST = 0.05, 40.0


def bits_of_a_run(change: float) -> float:
    """What one run tells in bits if the levels differ by `change` noises, and are equally likely."""
    places = np.linspace(-8.0, 8.0, 2_001)
    weights = np.exp(-np.square(places) / 2)
    ratio = change**2 / 2 + change * places
    lost = np.logaddexp(0.0, -ratio) / math.log(2)
    return float(1 - np.sum(weights * lost) / np.sum(weights))


def expected_runs(candidates: int, change: float) -> int:
    """The runs that find one of the candidates, on average, after the ends are known to differ.

    A change that takes place needs log2(n) bits, and its certainty log2(1 / (1 - `CERTAIN`)) more, of which a run tells
    half the squared change, once one place is likely (Burnashev). Both sides of it are measured twice.
    """
    change = min(MOST, max(LEAST, change))
    certainty = -math.log(1 - CERTAIN) / (change**2 / 2)
    return math.ceil(math.log2(max(2, candidates - 1)) / bits_of_a_run(change) + max(2.0, certainty))


def expectation(search: Search) -> str:
    count = len(search.candidates)
    most = f"at most {search.max_runs} runs"
    if search.references_differ():
        change = change_in_noises(search)
        size = f"{change:.2g} times the noise" if change < MOST else "far larger than the noise"
        return f"about {expected_runs(count, change)} runs for {count:,} candidates, a change {size}; {most}"
    more = expected_runs(count, 2.0)
    return (
        f"{FEWEST_RUNS} runs or more of both ends, and about {more} for {count:,} candidates if the change is"
        f" 2 times the noise; {most}"
    )


def change_in_noises(search: Search) -> float:
    good, bad = _in_numbers(search, ())[:2]
    change, noise = abs(middle(bad) - middle(good)), max(map(spread_of, (good, bad)))
    return min(MOST, change / noise) if noise else MOST
