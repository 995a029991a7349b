"""One pass that removes expired run folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.log_lines import logger_of
from ml_metrics.retention.choice import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ml_metrics.model import Run
    from ml_metrics.removal import Usage
    from ml_metrics.retention.ages import Ages
    from ml_metrics.retention.choice import Needed
    from ml_metrics.retention.remover import Remover
    from ml_metrics.retention.stored_runs import StoredRun, StoredRuns

log = logger_of(__name__)


def _none(_: Collection[Run]) -> Collection[str]:
    return ()


def prune(  # noqa: PLR0913, PLR0917  (what a pass looks at)
    tests: Iterable[str],
    stored: StoredRuns,
    ages: Ages,
    needed: Needed,
    remover: Remover,
    in_progress: Callable[[Collection[Run]], Collection[str]] = _none,
) -> Iterator[tuple[StoredRun, Usage]]:
    """Remove run folders, and yield each with what it took. Stops early if the remover is late.

    `in_progress` returns the keys of those runs that Airflow is running: the documents of a run of which only a later
    task was cleared do not show it.
    """
    for test in tests:
        chosen = [choice.run for choice in choose(stored.of_test(test), ages, needed) if not choice.kept]
        running = in_progress([run.run for run in chosen if run.run]) if chosen else ()
        for run in chosen:
            if remover.is_late():
                return
            # it may have been cleared since it was read
            if run.key not in running and stored.read(test, run.key) == run:
                removed = remover.remove(run)
                if removed.problem:
                    log.warning("run %s of %s: %s", run.key, test, removed.problem)
                yield run, removed
