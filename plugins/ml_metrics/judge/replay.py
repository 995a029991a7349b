"""Judging the past again, run by run: what would these conditions have said?"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ml_metrics.judge.history import aware
from ml_metrics.judge.needs import history_needs
from ml_metrics.judge.run import judge_run
from ml_metrics.model import JobStatus, Metric, Outcome, StoredMetric

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from ml_metrics.config.regression import RegressionTestConfig
    from ml_metrics.judge.history import Acceptance
    from ml_metrics.judge.judgement import Judgement

NO_VALUE = {Outcome.MISSING, Outcome.SKIPPED}
"""Rows that tell that a run had no such metric."""


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """One run of the past and what is said of it now."""

    run_key: str
    timestamp: datetime
    judgement: Judgement

    def document(self) -> dict[str, Any]:
        """The run as JSON."""
        judged = self.judgement.document()
        return {
            "uuid": self.run_key,
            "timestamp": self.timestamp.isoformat(),
            "verdicts": judged["verdicts"],
            "alerts": judged["alerts"],
        }


@dataclass(frozen=True, slots=True)
class Replay:
    """Every run of a history, judged by what came before it."""

    runs: tuple[ReplayedRun, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing would have been called bad."""
        return all(run.judgement.passed for run in self.runs)

    def summary(self) -> dict[str, dict[str, int]]:
        """For each metric in how many runs it was judged, failed and alerted."""
        counts: dict[str, dict[str, int]] = defaultdict(lambda: {"runs": 0, "fail": 0, "alerts": 0})
        for run in self.runs:
            for verdict in run.judgement.verdicts:
                counts[verdict.metric]["runs"] += 1
                counts[verdict.metric]["fail"] += verdict.outcome is Outcome.FAIL
            for alert in run.judgement.alerts:
                if alert.metric is not None:
                    counts[alert.metric]["alerts"] += 1
        return dict(sorted(counts.items()))

    def document(self) -> dict[str, Any]:
        """What `ml-metrics replay --json` prints."""
        return {"runs": [run.document() for run in self.runs], "summary": self.summary()}


def replay(
    config: RegressionTestConfig,
    history: Iterable[StoredMetric],
    *,
    test: str = "",
    acceptances: Sequence[Acceptance] = (),
) -> Replay:
    """Judge each run of a test by the runs that ended before it, as `judge_run` would have at that time.

    The verdicts of the replay itself take the place of the stored ones: these conditions, not those of the time, decide
    which runs are in a baseline. An acceptance counts from when it was made. The order is that of the runs' ends, which
    is the newest time among their rows; rows of other tests are history to compare with.
    """
    return Replay(tuple(_replayed(config, list(history), test, acceptances)))


def _replayed(
    config: RegressionTestConfig, history: list[StoredMetric], test: str, acceptances: Sequence[Acceptance]
) -> Iterator[ReplayedRun]:
    others = [row for row in history if (row.test or test) != test]
    needs = history_needs(config, test)
    past: dict[str, list[StoredMetric]] = defaultdict(list)
    for key, ended, rows in _runs(row for row in history if (row.test or test) == test):
        status = next((row.job_status for row in rows if row.job_status is not JobStatus.SUCCESS), JobStatus.SUCCESS)
        measured, missing = _measured(rows)
        judgement = judge_run(
            config,
            measured,
            chain(others, *past.values()),
            status=status,
            run_key=key,
            now=ended,
            missing=missing,
            acceptances=[each for each in acceptances if aware(each.accepted_at) <= ended],
            test=test,
        )
        run = ReplayedRun(key, ended, judgement)
        yield run
        for row in _stored(rows, run, status, test):
            known = past[row.metric]
            known.append(row)
            if not acceptances and len(known) > 2 * (needs.window + needs.recent):
                past[row.metric] = needs.select(known)


def _runs(rows: Iterable[StoredMetric]) -> list[tuple[str, datetime, list[StoredMetric]]]:
    by_run: dict[str, list[StoredMetric]] = defaultdict(list)
    for row in rows:
        by_run[row.run_key].append(row)
    runs = [(key, max(aware(row.timestamp) for row in group), group) for key, group in by_run.items()]
    return sorted(runs, key=lambda run: (run[1], run[0]))


def _measured(rows: list[StoredMetric]) -> tuple[list[Metric], dict[str, str]]:
    """What a run's rows say that it measured, and what it could not: each metric once."""
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row.metric, aware(row.timestamp))):
        if not row.metric or (row.value is None and row.outcome in NO_VALUE):
            continue
        if row.value is None and row.outcome is Outcome.FAIL:
            missing[row.metric] = "the run stored no value for it"
        else:
            values[row.metric] = math.nan if row.value is None else row.value
    found = [Metric(name, value, tag=name, strategy="") for name, value in values.items()]
    return found, {name: reason for name, reason in missing.items() if name not in values}


def _stored(rows: list[StoredMetric], run: ReplayedRun, status: JobStatus, test: str) -> list[StoredMetric]:
    """The rows that a run would have left, with the replay's verdicts."""
    outcomes = {verdict.metric: verdict.outcome for verdict in run.judgement.verdicts}
    values = {row.metric: row.value for row in rows}
    return [
        StoredMetric(run.run_key, run.timestamp, name, values.get(name), status, outcomes.get(name), test)
        for name in dict.fromkeys([*values, *outcomes])
    ]
