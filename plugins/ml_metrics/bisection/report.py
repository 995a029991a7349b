"""A search as a JSON document and as a Markdown comment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.compare.report import escaped

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
