"""A search as a JSON document, a Markdown comment and JUnit XML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from ml_metrics.compare.report import escaped
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.bisection.probe import Probe
    from ml_metrics.bisection.search import Found, Search


def document(search: Search, probes: Sequence[Probe], found: Found) -> dict[str, Any]:
    """Return the search as JSON."""
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
            for probe in probes
        ],
    }


def markdown(search: Search, probes: Sequence[Probe], found: Found) -> str:
    """Return the answer and the values of every candidate that was run, in the order of time."""
    certainty = "" if found.certainty is None else f" ({found.certainty:.1%} certain)"
    lines = [f"**{escaped(found.reason)}**{certainty}", "", "| | candidate | values |", "| ---: | --- | --- |"]
    for place in sorted({probe.candidate for probe in probes}):
        own = [probe for probe in probes if probe.candidate == place]
        values = ", ".join(probe.state.value if probe.value is None else f"{probe.value:.6g}" for probe in own)
        lines.append(f"| {place + 1} | {escaped(search.candidates[place])} | {values} |")
    return "\n".join(lines)


def junit(metric: str, found: Found) -> str:
    """Return JUnit XML: the case has failed if the change was found, and is an error if there is no answer."""
    kind = "failure" if found.is_found else "" if found.is_answer else "error"
    counts = f'failures="{int(kind == "failure")}" errors="{int(kind == "error")}"'
    case = f'  <testcase classname="bisect" name={quoteattr(printable(metric))}'
    inside = f"><{kind} message={quoteattr(printable(found.reason))}/></testcase>" if kind else "/>"
    head = f'<testsuite name="ml-metrics bisect" tests="1" {counts} skipped="0">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, f"{case}{inside}", "</testsuite>", ""])
