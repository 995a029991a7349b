"""What is not wrong with a run, and yet should not stay as it is: odd files, and test files with odd keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.config.load import load_file
from ml_metrics.errors import MlMetricsError
from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Verdict
    from ml_metrics.run_folder import RunFolder


def warnings_of(test: TestDefinition, folder: RunFolder, verdicts: Iterable[Verdict]) -> Iterator[str]:
    """The warnings of the collector, of the test file, and of conditions that nothing can break."""
    yield from (folder.read("metrics") or {}).get("warnings", ())
    yield from _of_the_file(test.source)
    workload = folder.read_workload()
    if workload is not None and workload.status is JobStatus.SUCCESS:
        for verdict in verdicts:
            if verdict.outcome is Outcome.SKIPPED and not verdict.rule and verdict.reason:
                yield f"{verdict.metric}: {verdict.reason}"


def _of_the_file(source: str) -> tuple[str, ...]:
    """What reading the file again says. It may have changed since, or be gone: then it says nothing of this run."""
    if not source:
        return ()
    try:
        return tuple(load_file(source).warnings)
    except (MlMetricsError, OSError):
        return ()
