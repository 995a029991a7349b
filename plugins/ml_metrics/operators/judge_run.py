"""The task that decides whether the run is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics import steps
from ml_metrics.connections import warehouse
from ml_metrics.operators.task import TestTask, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class JudgeRun(TestTask):
    """Hold every metric against its condition and its history, and write `verdicts.json`."""

    def perform(self, context: Mapping[str, Any]) -> str:
        """Judge, and return a line for people."""
        with warehouse() as open_warehouse:
            run = run_of(self.test.name, context)
            judgement = steps.judge(self.test, run, self.folder(context), open_warehouse)
        for verdict in judgement.verdicts:
            tell = self.log.warning if verdict.broken else self.log.info
            tell("%s: %s. %s", verdict.metric, verdict.outcome, verdict.reason)
        broken = sum(verdict.broken for verdict in judgement.verdicts)
        return f"{len(judgement.verdicts)} verdicts, {broken} broken"
