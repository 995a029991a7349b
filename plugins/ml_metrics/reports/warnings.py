"""Warnings in a report: problems that do not fail the run, in its files and in its test file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.config.load import load_file
from ml_metrics.errors import MlMetricsError
from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.run_state import RunState


def warnings_of(test: TestDefinition, state: RunState) -> Iterator[str]:
    """Yield the warnings of the collector and the test file, and metrics that should alert but have no condition."""
    yield from state.collected.warnings if state.collected else ()
    yield from _test_file_warnings(test.source)
    if state.workload.status is JobStatus.SUCCESS and state.judgement:
        for verdict in state.judgement.verdicts:
            if verdict.outcome is Outcome.SKIPPED and not verdict.rule and verdict.reason:
                yield f"{verdict.metric}: {verdict.reason}"


def _test_file_warnings(path: str) -> tuple[str, ...]:
    """Return the warnings of a test file; none if the file was removed or broken since the run."""
    if not path:
        return ()
    try:
        return tuple(load_file(path).warnings)
    except (MlMetricsError, OSError):
        return ()
