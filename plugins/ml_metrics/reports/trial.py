"""The notice about a trial: its changes, its verdicts, and the values of the newest regular run."""

from __future__ import annotations

import json
import math
import shlex
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import Fact, Notice
from ml_metrics.alerts.pages import page_of_run, page_of_test
from ml_metrics.config.trial import TRIAL
from ml_metrics.judge.attributes import SECRET
from ml_metrics.model import JobStatus, Outcome, Severity
from ml_metrics.reports.log import SHOWN_LINES, log_of
from ml_metrics.reports.metric_words import value_and_requirement
from ml_metrics.reports.problems import problems_of
from ml_metrics.units import quantity
from ml_metrics.values import finite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run, StoredMetric, Verdict
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import JobRow, Warehouse

MAX_VALUE_LENGTH = 200
MAX_SENTENCES = 10
NO_EFFECT = "No run is compared with a trial, and it opens no incident."
SMALLEST_CHANGE = 0.05
"""In percent: a smaller change is not stated."""


def trial_notice(  # noqa: PLR0913  (the sources of the notice)
    test: TestDefinition,
    run: Run,
    state: RunState,
    *,
    warehouse: Warehouse | None,
    dashboard_url: str,
    log_lines: int = SHOWN_LINES,
) -> Notice:
    """Return the notice about a trial that has ended. Without the warehouse it has no regular run beside it."""
    regular = warehouse.runs.previous(run.test, exclude=run.key) if warehouse else None
    before = {row.metric: row for row in warehouse.metrics.of_run(regular.place)} if warehouse and regular else {}
    failures = _failures(state)
    verdicts = sorted(_judged(state), key=lambda verdict: (not verdict.broken, verdict.severity is Severity.WARN))
    return Notice(
        headline=_headline(run, failures, verdicts),
        sentences=(
            _start(run, state),
            *_sentences(failures, verdicts),
            *_error(state, log_lines),
            _compared_with(regular, warehouse),
            NO_EFFECT,
        ),
        items=(*changes_of(test, state), *_values(verdicts, state, before)),
        buttons=buttons_of(run, dashboard_url),
        test=run.test,
        run_key=run.key,
    )


def changes_of(test: TestDefinition, state: RunState) -> Iterator[Fact]:
    """Yield each change with both values. A value that may be secret is not shown."""
    usual: dict[str, Any] = {"image": test.image, "command": [*test.command, *test.args]}
    usual |= {name: param.default for name, param in test.params.items()}
    for name in state.trial:
        if name == TRIAL and name not in test.params:
            yield Fact(name, "nothing was changed: the run was marked as a trial")
        elif SECRET.search(name):
            yield Fact(name, "another value")
        else:
            yield Fact(name, f"{_text(state.params.get(name))} instead of {_text(usual.get(name))}")


def buttons_of(run: Run, dashboard_url: str) -> tuple[Fact, ...]:
    """Return the links to the run and to all runs of its test."""
    return (
        Fact("this run", "Open the run", page_of_run(dashboard_url, run.key)),
        Fact("every run", "Runs of the test", page_of_test(dashboard_url, run.test)),
    )


def _headline(run: Run, failures: list[str], verdicts: list[Verdict]) -> str:
    if not failures:
        return f"trial of {run.test} passed"
    first = next((_required(verdict) for verdict in verdicts if verdict.broken), failures[0])
    more = f" (+{len(failures) - 1} more)" if len(failures) > 1 else ""
    return f"trial of {run.test} failed: {first}{more}"


def _start(run: Run, state: RunState) -> str:
    by = f" by {state.started_by}" if state.started_by else ""
    return f"Run {run.run_id} was started{by} as a trial: {', '.join(state.trial)}."


def _failures(state: RunState) -> list[str]:
    """Return why the trial failed; nothing if it passed."""
    return list(state.gate.reasons) if state.gate is not None else list(problems_of(state).urgent.values())


def _sentences(failures: list[str], verdicts: list[Verdict]) -> Iterator[str]:
    """Yield the failures that no row about a metric states."""
    in_rows = tuple(f"{verdict.metric}: " for verdict in verdicts)
    others = [failure for failure in failures if not failure.startswith(in_rows)]
    yield from others[:MAX_SENTENCES]
    if len(others) > MAX_SENTENCES:
        yield f"and {len(others) - MAX_SENTENCES} more"


def _error(state: RunState, log_lines: int) -> Iterator[str]:
    """Yield the error that the log of a failed workload ends with."""
    if state.workload.status is JobStatus.SUCCESS or not log_lines:
        return
    log = log_of(state.folder, state.workload.attempts, log_lines)
    if log and log.error:
        yield f"Its log ends with {log.error}"


def _compared_with(regular: JobRow | None, warehouse: Warehouse | None) -> str:
    if warehouse is None:
        return "The warehouse is unreachable, so the values of regular runs are unknown."
    if regular is None:
        return "The test has no regular run yet."
    result = regular.verdict if regular.job_status == JobStatus.SUCCESS else regular.job_status
    return f"The newest regular run, of {regular.timestamp:%Y-%m-%d %H:%M} UTC, has the result {result or '-'}."


def _judged(state: RunState) -> list[Verdict]:
    verdicts = state.judgement.verdicts if state.judgement else ()
    return [verdict for verdict in verdicts if verdict.outcome is not Outcome.SKIPPED]


def _values(verdicts: list[Verdict], state: RunState, before: Mapping[str, StoredMetric]) -> Iterator[Fact]:
    """Yield the judged metrics, broken ones first; all metrics if none was judged."""
    for verdict in verdicts:
        note = {Severity.WARN: " (warns)"}.get(verdict.severity, "") if verdict.broken else ""
        stated = f"{str(verdict.outcome).replace('_', ' ')}{note}: {_value_and_bounds(verdict)}"
        yield Fact(verdict.metric, f"{stated}{_beside(verdict.value, before.get(verdict.metric), verdict.unit)}")
    for metric in () if verdicts else state.metrics:
        value = finite(metric.value)
        yield Fact(metric.name, f"{quantity(value, metric.unit)}{_beside(value, before.get(metric.name), metric.unit)}")


def _required(verdict: Verdict) -> str:
    return f"{verdict.metric} {_value_and_bounds(verdict)}"


def _value_and_bounds(verdict: Verdict) -> str:
    value = finite(verdict.value) if verdict.value is not None else None
    if value is None:
        return "no value" if verdict.outcome is Outcome.MISSING else "no finite number"
    if verdict.bounds is None:
        return quantity(value, verdict.unit)
    shown, required = value_and_requirement(value, verdict.bounds, verdict.unit)
    return f"{shown}, must be {required}"


def _beside(value: float | None, regular: StoredMetric | None, unit: str) -> str:
    was = regular.value if regular else None
    if was is None:
        return ""
    return f"; {quantity(was, unit)} in the regular run{change_in_percent(value, was)}"


def change_in_percent(value: float | None, was: float) -> str:
    """Return the change from another value; empty if a percentage is meaningless."""
    if value is None or was == 0:
        return ""
    percent = (value / abs(was) - math.copysign(1, was)) * 100
    if not math.isfinite(percent) or abs(percent) < SMALLEST_CHANGE:
        return ""
    return f" ({percent:+.3g} %)"


def _text(value: Any) -> str:
    """Return a value in one line: a command as in a shell, everything else as JSON."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        text = shlex.join(value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}..."
