"""The details of the problems of one run: headlines, facts, charts, logs, and what to do first."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Problem
from ml_metrics.reports.advice import advice_on
from ml_metrics.reports.cost import regression_facts
from ml_metrics.reports.job_words import job_facts, job_words
from ml_metrics.reports.log import log_of
from ml_metrics.reports.metric import MetricHistory, as_stored, metric_facts, picture_of
from ml_metrics.reports.metric_words import metric_words
from ml_metrics.reports.problems import metric_of, short_name
from ml_metrics.reports.streak import Streak, streak_of
from ml_metrics.reports.suspects import first_look, level_change, straggler, suspects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.model import Run, Verdict
    from ml_metrics.reports.metric import TestHistory
    from ml_metrics.reports.nodes import NodeOfRun
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Warehouse

MAX_DETAILED_METRICS = 6
"""How many metrics have history and a chart: a run may fail hundreds, and each takes queries."""
THE_JOB = "the job"


@dataclass
class Details:
    """The details of a run's problems, with one query per metric."""

    run: Run
    state: RunState
    verdicts: Mapping[str, Verdict]
    warehouse: Warehouse | None
    history: TestHistory | None
    log_lines: int
    node: NodeOfRun | None = None
    streaks: list[tuple[str, Streak]] = field(default_factory=list)
    level_changes: list[str] = field(default_factory=list)
    detailed: int = 0
    main: tuple[str, str] = ("", "")
    """The name of the problem that comes first, and its subject: `the job`, or a metric."""

    def problem(self, name: str, sentence: str) -> Problem:
        """Return a problem with its facts. The first one is what the message is mainly about."""
        verdict = self.verdicts.get(metric_of(name))
        if not self.main[0]:
            self.main = (name, metric_of(name) or THE_JOB)
        if verdict is not None:
            return self._metric_problem(name, verdict)
        if name.startswith("job_status"):
            return self._job_problem(name)
        return Problem(name, short_name(name), sentence.replace("`", ""))

    def _job_problem(self, name: str) -> Problem:
        workload = self.state.workload
        if self.history is not None:
            self.streaks.append((THE_JOB, streak_of(self.run.key, self.history.jobs_failed())))
        log = log_of(self.state.folder, workload.attempts, self.log_lines) if self.log_lines else None
        short, headline = job_words(workload, log.error if log else "")
        return Problem(name, short, headline, tuple(job_facts(workload, headline)), log=log)

    def _metric_problem(self, name: str, verdict: Verdict) -> Problem:
        history, picture, reference = None, None, None
        now = as_stored(verdict, self.run, self.state.workload.ended_at or datetime.now(UTC))
        if self.warehouse is not None and self.detailed < MAX_DETAILED_METRICS:
            self.detailed += 1
            history = MetricHistory.load(self.warehouse, self.run, verdict.metric)
            reference = history.reference(now)
            streak = history.streak(now, reference)
            self.streaks.append((verdict.metric, streak))
            attributes = self.history.attributes if self.history is not None else {}
            self.level_changes.append(level_change(now, history, streak.first_failed, attributes))
            if self.node is not None:
                self.level_changes.append(self.node.sentence(verdict))
            if history.values:
                picture = picture_of(self.detailed, now, history)
        short, headline = metric_words(name, verdict, reference)
        facts = (*metric_facts(verdict, history), *regression_facts(self.state, verdict.metric))
        return Problem(name, short, headline, facts, picture)

    def first_look(self) -> str:
        """Return what to do first about the main problem: by its kind, and by the runs before."""
        name, subject = self.main
        if not name:
            return ""
        advice = advice_on(name, self.state, metric_of(name))
        streak = dict(self.streaks).get(subject)
        if streak is None or self.history is None:
            return advice
        look = first_look(streak, self.run, self.state.folder, self.history)
        others = [other for other, each in self.streaks if each == streak and other != subject]
        same = f" The same holds for {', '.join(others)}." if others else ""
        return " ".join(filter(None, (advice, f"{look}{same}")))

    def suspects(self) -> tuple[str, ...]:
        """Return when the other problems started, earlier changes of levels, and what slows a node or a host down."""
        if self.history is None:
            return ()
        main = dict(self.streaks).get(self.main[1])
        others = [(name, streak) for name, streak in self.streaks if streak != main]
        started = suspects(self.run, self.state.folder, self.history, others)
        return (*started, *filter(None, self.level_changes), *straggler(self.state.goodput))
