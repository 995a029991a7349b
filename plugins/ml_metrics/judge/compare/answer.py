"""The answer of a comparison about one metric, in numbers and in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from xml.sax.saxutils import quoteattr

from ml_metrics.config.collection import MetricFacts, known_about
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import HIGHER, LOWER, NEITHER, Kind
from ml_metrics.core.text import printable
from ml_metrics.core.units import quantities, quantity
from ml_metrics.judge.compare.curves import (
    NOTHING_COMMON,
    MeasuredBlock,
    ValueOrCurve,
    are_numbers,
    compared_curves,
    stated_of,
)
from ml_metrics.judge.compare.statistics import (
    LEVEL,
    SHOWS_MEMORY,
    Arms,
    Found,
    Shift,
    arms_of,
    decide,
    hides_memory,
    interval,
    needed_repeats,
    noise_percent,
)
from ml_metrics.judge.noise import middle_of_ordered

Repeats = Mapping[str, Sequence[ValueOrCurve]]
SHOWN_CERTAINTY = 0.9999
WIDE = "values resemble the ones before, as on a host that changed in the middle. Measure both arms in turns"
HIDDEN = (
    f"Fewer than {SHOWS_MEMORY} values do not show whether they resemble the ones before, which makes differences by"
    " chance more frequent: measure in turns to be sure"
)
NOTABLE = 1.1
"""An interval that is wider by less is not worth a word."""


class Answer(StrEnum):
    """The verdict of a comparison on one metric."""

    WORSE = "worse"
    BETTER = "better"
    EQUIVALENT = "equivalent"
    """The change is shown to be smaller than the effect, whatever its direction."""
    UNDECIDED = "undecided"
    """Neither a difference nor its absence is shown."""


@dataclass(frozen=True, slots=True)
class Arm:
    """The values of one arm."""

    runs: int
    """Its finite values."""
    left_out: int
    """Its values that are missing, NaN or infinite."""
    level: float | None
    """The median."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Arm:
        finite = sorted(value for value in values if math.isfinite(value))
        return cls(len(finite), len(values) - len(finite), middle_of_ordered(finite) if finite else None)

    def document(self) -> dict[str, Any]:
        return {"runs": self.runs, "left_out": self.left_out, "median": self.level}


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one metric."""

    metric: str
    answer: Answer
    base: Arm
    candidate: Arm
    reason: str
    better: str = ""
    unit: str = ""
    change_percent: float | None = None
    """The change of the candidate in percent of the base, greater if the value is; None if there is no such percent."""
    interval: tuple[float, float] | None = None
    """Where the change in percent is; None if there are too few values, or the level of the base is 0."""
    certainty: float | None = None
    noise_percent: float | None = None
    """The standard deviation of the values of one arm, in percent of the level."""
    where: str = ""
    """Of a curve: where it differs, with a space before."""

    def document(self) -> dict[str, Any]:
        return {
            "verdict": self.answer.value,
            "change_percent": self.change_percent,
            "interval": None if self.interval is None else list(self.interval),
            "certainty": self.certainty,
            "runs": self.base.runs + self.candidate.runs,
            "base": self.base.document(),
            "candidate": self.candidate.document(),
            "better": self.better or None,
            "noise_percent": self.noise_percent,
            "reason": self.reason,
            **({"where": self.where.strip()} if self.where else {}),
        }


def compared(
    metric: str,
    blocks: Sequence[MeasuredBlock],
    effect: float,
    kind: Kind,
    *,
    level: float = LEVEL,
    found: Found | None = None,
) -> Compared:
    """What the values show about a metric, or the curves of all runs.

    `blocks`: a single one where base and candidate were not measured in turns. `effect`: the smallest change that
    matters, in percent. `level`: the share of comparisons of equal arms in which a difference may be found. `found`:
    what the looks of the comparison have found, if there were several. If `kind` knows no better direction, every
    difference is for the worse.
    """
    better, unit = kind.better, kind.unit
    whole = None
    if not are_numbers(blocks):
        whole = compared_curves(blocks, effect, level, better)
        blocks, unit = whole.blocks, "%"
        found = found if found and found.shift is Shift.UNDECIDED else whole.found
    arms = arms_of(blocks)
    base, candidate = (Arm.of([value for block in blocks for value in block[place]]) for place in (0, 1))
    if not arms.ends:
        none = NOTHING_COMMON if whole else _no_values(base, candidate)
        return Compared(metric, Answer.UNDECIDED, base, candidate, none, better, unit)
    found = found or decide(arms, effect, level)
    ends = None if whole else interval(arms, level)
    percents = None if ends is None or not arms.scale.in_percent else tuple(_percent(arms, end) for end in ends)
    if whole and whole.change is not None and whole.interval:
        percents = (whole.change, *whole.interval)
    result = Compared(
        metric,
        answer_of(found.shift, better),
        base,
        candidate,
        "",
        better,
        unit,
        change_percent=percents[0] if percents else _change(base, candidate) if arms.scale.in_percent else None,
        interval=percents[1:] if percents else None,  # type: ignore[arg-type]
        certainty=None if found.certainty is None else min(found.certainty, SHOWN_CERTAINTY),
        noise_percent=noise_percent(arms),
        where=whole.where if whole else "",
    )
    hidden = found.shift is not Shift.UNDECIDED and hides_memory(arms)
    notes = [_reason(result, found.shift, effect, arms), *([HIDDEN] if hidden else [])]
    if whole and whole.shorter:
        is_undecided = found.shift is Shift.UNDECIDED
        notes = [*(["not all of the base is compared"] if is_undecided else notes), whole.shorter]
    for arm, name in ((base, "base"), (candidate, "candidate")):
        if arm.left_out:
            values = "value of the {} is" if arm.left_out == 1 else "values of the {} are"
            notes.append(f"{arm.left_out} {values.format(name)} not finite")
    return replace(result, reason=". ".join(notes))


def _percent(arms: Arms, shift: float) -> float:
    percent = arms.scale.percent(shift)
    return round(percent, 6) + 0.0 if math.isfinite(percent) else percent


def _change(base: Arm, candidate: Arm) -> float | None:
    if not base.level or candidate.level is None:
        return None
    change = (candidate.level / abs(base.level) - math.copysign(1, base.level)) * 100
    return round(change, 6) + 0.0 if math.isfinite(change) else None


def answer_of(shift: Shift, better: str) -> Answer:
    """What a shift means; any is for the worse if it is not known which direction is better."""
    if shift is Shift.EQUIVALENT:
        return Answer.EQUIVALENT
    if shift is Shift.UNDECIDED or better == NEITHER:
        return Answer.UNDECIDED
    return Answer.BETTER if shift == better else Answer.WORSE


def _no_values(base: Arm, candidate: Arm) -> str:
    arms = (("base", base), ("candidate", candidate))
    unmeasured = [name for name, arm in arms if not arm.runs and not arm.left_out]
    if unmeasured:
        return f"the {' and the '.join(unmeasured)} did not measure it"
    if base.runs and candidate.runs:
        return "base and candidate never ran on the same host, so that versions and hosts cannot be told apart"
    return f"no value of the {' and the '.join(name for name, arm in arms if not arm.runs)} is finite"


def _reason(result: Compared, shift: Shift, effect: float, arms: Arms) -> str:
    if shift is Shift.UNDECIDED:
        return _undecided(result, effect, arms)
    wide = ""
    if arms.widening > NOTABLE:
        wide = f". Values resemble the ones before: the interval is {arms.widening:.2g} times as wide as without that"
    if shift is Shift.EQUIVALENT:
        return f"the change is smaller than {effect:g} %{wide}"
    levels = " to ".join(quantity(arm.level, result.unit) for arm in (result.base, result.candidate))
    size = "" if result.interval is None else f" by {min(map(abs, result.interval)):.3g} % or more"
    meaning = {
        NEITHER: ", and no direction of it is better",
        HIGHER: ", and higher is better",
        LOWER: ", and lower is better",
    }.get(result.better, "; it is not known which direction is better, so any difference is for the worse")
    return f"{shift}{result.where}{size} ({levels}){meaning}{wide}"


def _undecided(result: Compared, effect: float, arms: Arms) -> str:
    base, candidate = result.base.runs, result.candidate.runs
    neither = f"a change of {effect:g} % is neither shown nor ruled out"
    needed = needed_repeats(arms, effect)
    takes = "" if needed <= min(base, candidate) else f"about {needed:,} repeats in each arm"
    if arms.widening > NOTABLE:
        return f"{neither}: {WIDE}{takes and f', or make {takes}'}"
    if result.interval is None and (result.noise_percent is not None or base == candidate == 1):
        count = f"{base} and {candidate} repeats" if base + candidate > 2 else "one repeat in each arm"
        return f"{count} cannot show a difference: 4 in each arm are the fewest that can"
    if result.interval is None:
        return "no difference is shown, and since the base is around 0, no change in percent can be ruled out"
    return f"{neither}{takes and f': that takes {takes}'}"


def compare_repeats(
    base: Repeats,
    candidate: Repeats,
    effect: float,
    facts: Mapping[str, MetricFacts],
    *,
    in_turns: bool = False,
    together: bool = False,
) -> list[Compared]:
    """The comparison of each metric, in the order of the base; values are oldest first.

    `effect`: the smallest change that matters, in percent. `in_turns`: values at the same place were measured one
    after the other. `together`: the level holds for all metrics together, instead of for each.
    """
    metrics = list(dict.fromkeys([*base, *candidate]))
    level = LEVEL / len(metrics) if together and metrics else LEVEL
    found = []
    for metric in metrics:
        values, others = base.get(metric, ()), candidate.get(metric, ())
        blocks: list[MeasuredBlock] = [(values, others)]
        if in_turns:  # blocks of two values of each arm; an odd last value makes a block of its own
            if values and others and len(values) != len(others):
                raise UnreadableInputError(
                    f"{metric}: {len(values)} and {len(others)} values were not measured in turns: write null for a run"
                    " without a value"
                )
            places = range(0, max(len(values), len(others)), 2)
            blocks = [(values[place : place + 2], others[place : place + 2]) for place in places]
        found.append(compared(metric, blocks, effect, known_about(metric, facts, stated_of(blocks)), level=level))
    return found


SIGNS = {Answer.WORSE: "❌", Answer.BETTER: "✅", Answer.EQUIVALENT: "✅", Answer.UNDECIDED: "❔"}


def document(found: Sequence[Compared], effect: float) -> dict[str, Any]:
    return {"effect_percent": effect, "metrics": {each.metric: each.document() for each in found}}


def cells(each: Compared) -> list[str]:
    base, candidate = quantities([each.base.level, each.candidate.level], each.unit)
    change = "-" if each.change_percent is None else f"{each.change_percent:+.3g} %"
    ends = "-" if each.interval is None else f"{each.interval[0]:+.3g} to {each.interval[1]:+.3g} %"
    return [each.metric, each.answer.value, base, candidate, change, ends, f"{each.base.runs}+{each.candidate.runs}"]


def summary(found: Sequence[Compared]) -> str:
    """The number of metrics of each verdict: `1 worse, 2 equivalent`."""
    counts = Counter(each.answer for each in found)
    return ", ".join(f"{counts[answer]} {answer.value}" for answer in Answer if counts[answer])


def multiplicity(found: Sequence[Compared], *, together: bool) -> str:
    """What the level of the verdicts means for so many metrics; empty for a few."""
    if together or len(found) < 4:
        return ""
    expected = LEVEL * len(found)
    return f"Each verdict has an error of 5 %: of {len(found)} metrics without a change, {expected:.2g} would show one."


def markdown(found: Sequence[Compared], effect: float, *, together: bool) -> str:
    lines = [
        f"**{summary(found)}** (effect {effect:g} %)",
        "",
        "| | metric | verdict | base | candidate | change | 95 % interval | runs |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
        *(f"| {SIGNS[each.answer]} | {' | '.join(map(escaped, cells(each)))} |" for each in found),
    ]
    open_ones = [each for each in found if each.answer is not Answer.EQUIVALENT]
    shown = [f"- {escaped(each.metric)}: {escaped(each.reason)}" for each in open_ones]
    note = multiplicity(found, together=together)
    return "\n".join([*lines, *(["", *shown] if shown else []), *(["", note] if note else [])])


def junit(found: Sequence[Compared], *, strict: bool) -> str:
    """A test case for each metric: a worse one has failed, an undecided one is skipped."""
    cases, failed, skipped = [], 0, 0
    for each in found:
        case = f'  <testcase classname="compare" name={quoteattr(printable(each.metric))}'
        message = quoteattr(printable(each.reason))
        if each.answer is Answer.WORSE or (strict and each.answer is Answer.UNDECIDED):
            failed += 1
            case += f'><failure type="{each.answer.value}" message={message}/></testcase>'
        elif each.answer is Answer.UNDECIDED:
            skipped += 1
            case += f"><skipped message={message}/></testcase>"
        else:
            case += "/>"
        cases.append(case)
    head = f'<testsuite name="ml-metrics compare" tests="{len(cases)}" failures="{failed}" skipped="{skipped}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", ""])


def escaped(text: str) -> str:
    """So that Markdown shows it as it is."""
    shown = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{letter}" if letter in "\\`*_[]|~@#" else letter for letter in shown)
