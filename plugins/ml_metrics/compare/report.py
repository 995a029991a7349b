"""A comparison as a JSON document, a table, a Markdown comment and JUnit XML."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from ml_metrics.compare.answer import Answer
from ml_metrics.compare.spending import LEVEL
from ml_metrics.units import quantities
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.compare.answer import Compared

MANY = 4
"""From this number of metrics on, differences by chance are worth a sentence."""
SIGNS = {Answer.WORSE: "❌", Answer.BETTER: "✅", Answer.EQUIVALENT: "✅", Answer.UNDECIDED: "❔"}


def document(found: Sequence[Compared], effect: float) -> dict[str, Any]:
    """Return the comparison as JSON."""
    return {"effect_percent": effect, "metrics": {each.metric: each.document() for each in found}}


def cells(each: Compared) -> list[str]:
    """Return metric, verdict, both levels, the change, its interval and the number of values."""
    base, candidate = quantities([each.base.level, each.candidate.level], each.unit)
    change = "-" if each.change_percent is None else f"{each.change_percent:+.3g} %"
    ends = "-" if each.interval is None else f"{each.interval[0]:+.3g} to {each.interval[1]:+.3g} %"
    return [each.metric, each.answer.value, base, candidate, change, ends, f"{each.base.runs}+{each.candidate.runs}"]


def summary(found: Sequence[Compared]) -> str:
    """Return the number of metrics of each verdict: `1 worse, 2 equivalent`."""
    counts = Counter(each.answer for each in found)
    return ", ".join(f"{counts[answer]} {answer.value}" for answer in Answer if counts[answer])


def multiplicity(found: Sequence[Compared], *, together: bool) -> str:
    """Return what the level of the verdicts means for so many metrics; empty for a few."""
    if together or len(found) < MANY:
        return ""
    expected = LEVEL * len(found)
    return f"Each verdict has an error of 5 %: of {len(found)} metrics without a change, {expected:.2g} would show one."


def markdown(found: Sequence[Compared], effect: float, *, together: bool) -> str:
    """Return a comment: the summary, a table, and the reasons of what is not equivalent."""
    lines = [f"**{summary(found)}** (effect {effect:g} %)", ""]
    lines += ["| | metric | verdict | base | candidate | change | 95 % interval | runs |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for each in found:
        lines.append(f"| {SIGNS[each.answer]} | {' | '.join(map(escaped, cells(each)))} |")
    reasons = [f"- {escaped(each.metric)}: {escaped(each.reason)}" for each in found]
    shown = [reason for reason, each in zip(reasons, found, strict=True) if each.answer is not Answer.EQUIVALENT]
    note = multiplicity(found, together=together)
    return "\n".join([*lines, *(["", *shown] if shown else []), *(["", note] if note else [])])


def junit(found: Sequence[Compared], *, strict: bool) -> str:
    """Return JUnit XML with a test case for each metric: a worse one has failed, an undecided one is skipped."""
    cases = [_case(each, strict=strict) for each in found]
    failed = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    head = f'<testsuite name="ml-metrics compare" tests="{len(cases)}" failures="{failed}" skipped="{skipped}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", ""])


def _case(each: Compared, *, strict: bool) -> str:
    case = f'  <testcase classname="compare" name={quoteattr(printable(each.metric))}'
    message = quoteattr(printable(each.reason))
    if each.answer is Answer.WORSE or (strict and each.answer is Answer.UNDECIDED):
        return f'{case}><failure type="{each.answer.value}" message={message}/></testcase>'
    return f"{case}><skipped message={message}/></testcase>" if each.answer is Answer.UNDECIDED else f"{case}/>"


def escaped(text: str) -> str:
    """Return the text so that Markdown shows it as it is."""
    shown = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{letter}" if letter in "\\`*_[]|~@#" else letter for letter in shown)
