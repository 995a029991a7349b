"""The content of a recovery: the current values, the problems that ended, and for how long they lasted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact
from ml_metrics.model import Bounds
from ml_metrics.reports.metric_words import value_and_requirement
from ml_metrics.reports.problems import metric_of, short_name
from ml_metrics.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from ml_metrics.model import Run, Verdict, Workload
    from ml_metrics.reports.metric import TestHistory
    from ml_metrics.warehouse import Incident

MAX_NAMES = 20


@dataclass(frozen=True, slots=True)
class Recovery:
    """The parts of a message about a recovery."""

    headline: str = ""
    """`accuracy_final 0.97, must be above 0.96`."""
    sentences: tuple[str, ...] = ()
    now: tuple[Fact, ...] = ()
    """The value of each further metric that was broken, with its bounds."""


def recovery_of(
    incident: Incident, run: Run, workload: Workload, verdicts: Mapping[str, Verdict], history: TestHistory | None
) -> Recovery:
    """Return the recovery that a passing run makes."""
    reasons = tuple(dict.fromkeys((*incident.reported, *incident.reasons)))
    now = tuple(_values_now(reasons, verdicts))
    job = any(reason.startswith("job_status") for reason in reasons)
    again = "the job succeeds again" if job else "the run passes again"
    headline = f"{now[0].name} {now[0].value}" if now else again
    if len(now) > 1:
        headline += f" (+{len(now) - 1} more)"
    shown = [short_name(reason) for reason in reasons[:MAX_NAMES]]
    more = f" and {len(reasons) - MAX_NAMES:,} more" if len(reasons) > MAX_NAMES else ""
    broken = f"It was broken {_how_long(incident, run, workload, history)}: {', '.join(shown)}{more}."
    taken = f"Acknowledged by {incident.acknowledged_by}{': ' + incident.note if incident.note else ''}."
    sentences = (broken, taken) if incident.acknowledged_by else (broken,)
    return Recovery(headline, sentences, now[1:MAX_NAMES])


def _values_now(reasons: tuple[str, ...], verdicts: Mapping[str, Verdict]) -> Iterator[Fact]:
    for metric in dict.fromkeys(filter(None, map(metric_of, reasons))):
        verdict = verdicts.get(metric)
        if verdict is not None and verdict.value is not None:
            value, required = value_and_requirement(verdict.value, verdict.bounds or Bounds(), verdict.unit)
            yield Fact(metric, f"{value}, must be {required}" if verdict.bounds is not None else f"{value} again")


def _how_long(incident: Incident, run: Run, workload: Workload, history: TestHistory | None) -> str:
    """Return since when the test was broken, and in how many runs: `for 4 days, in 4 runs, since 2026-01-07 03:05`."""
    since, runs = _beginning(incident, run, history)
    until = workload.ended_at
    lasted = f"for {duration((until - since).total_seconds())}, " if until is not None and until > since else ""
    number = "" if not runs else f"in {runs} run{'s' if runs > 1 else ''}, "
    return f"{lasted}{number}since {since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _beginning(incident: Incident, run: Run, history: TestHistory | None) -> tuple[datetime, int]:
    """Return when the first broken run ended, and how many runs there were from it to this one."""
    keys = [job.uuid for job in history.jobs if job.uuid != run.key] if history is not None else []
    first = next((key for key in incident.run_keys if key in keys), "")
    if history is None or not first:
        return incident.opened_at, 0
    at = keys.index(first)
    jobs = [job for job in history.jobs if job.uuid != run.key]
    return jobs[at].timestamp, len(jobs) - at
