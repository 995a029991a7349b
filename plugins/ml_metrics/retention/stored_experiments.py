"""The journals of comparisons and searches in a storage root, and the removal of those that are kept no longer.

A journal is kept by the rule of the run folders, as that of the run that makes the experiment. Its age counts from the
last time it was written: after the last trial, or when the result was known.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.documents import Documents
from ml_metrics.errors import FileMissingError, MlMetricsError, UnreadableInputError
from ml_metrics.experiments.journal import CHANGED, FOLDER
from ml_metrics.experiments.listing import Listed
from ml_metrics.experiments.own_search import forget, recorded
from ml_metrics.experiments.start_markers import remove_start
from ml_metrics.log_lines import logger_of
from ml_metrics.removal import Usage
from ml_metrics.retention.choice import Choice, why_kept
from ml_metrics.retention.stored_runs import MOST_FOLDERS, READ_AT_ONCE, StoredRun, is_key
from ml_metrics.values import BEGINNING_OF_TIME, as_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ml_metrics.retention.ages import Ages
    from ml_metrics.retention.choice import Needed

log = logger_of(__name__)


@dataclass(frozen=True, slots=True)
class StoredExperiments:
    """The journals of a deployment. Those of others in the same storage root are listed with a problem."""

    root: str
    deployment: str

    def choices(
        self, ages: Ages, needed: Needed, tests: Collection[str] | None = None, now: datetime | None = None
    ) -> Iterator[tuple[Choice, Usage]]:
        """Decide about each experiment, or about those of some tests, and yield that with what its journal takes."""
        now = now or datetime.now(UTC)
        sizes = {key: size for key, size in self._documents.sizes(MOST_FOLDERS).items() if is_key(key)}
        for stored in self._read_all(list(sizes)):
            if tests is None or stored.test in tests:
                yield Choice(stored, why_kept(stored, ages, needed, now)), Usage(1, sizes[stored.key])

    def prune(
        self,
        ages: Ages,
        needed: Needed,
        tests: Collection[str] | None = None,
        is_late: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[StoredRun, Usage]]:
        """Remove the journals that are kept no longer, and yield each with what it took. Stops if it is late."""
        chosen = [(choice.run, usage) for choice, usage in self.choices(ages, needed, tests) if not choice.kept]
        topics = recorded(self.root, self.deployment) if chosen else {}
        for run, usage in chosen:
            if is_late():
                return
            # a task that was cleared may have written it meanwhile
            if self.read(run.key) == run:
                yield run, self._remove(run.key, topics.get(run.key, ()), usage)

    def read(self, key: str) -> StoredRun:
        """Return the run of an experiment as its journal states it now."""
        try:
            journal = self._documents.read(key)
            if (deployment := journal.get("deployment") or self.deployment) != self.deployment:
                raise UnreadableInputError(f"it is of deployment {deployment!r}")
            return _stored(key, journal)
        except MlMetricsError as error:
            return StoredRun("", key, kind="journal", problem=str(error))
        except (AttributeError, TypeError, ValueError) as error:
            return StoredRun("", key, kind="journal", problem=f"it cannot be read: {error!r}")

    def _read_all(self, keys: list[str]) -> Iterator[StoredRun]:
        if storage.is_local(self.root):
            yield from map(self.read, keys)
            return
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            yield from pool.map(self.read, keys)

    def _remove(self, key: str, topics: Iterable[str], usage: Usage) -> Usage:
        """Remove the journal last, by which the next pass finds what a killed one has left. Return what was removed."""
        try:
            journal = self._documents.read(key)
            forget(self.root, key, topics, self.deployment)
            if began := _time(journal.get("began")):
                remove_start(self.root, key, began)
            self._documents.remove(key)
        except FileMissingError:
            return Usage()
        except MlMetricsError as error:
            log.warning("the journal of experiment %s: %s", key, error)
            return Usage(problem=str(error))
        return usage

    @property
    def _documents(self) -> Documents:
        return Documents.of_deployment(self.root, FOLDER)


def _stored(key: str, journal: Mapping[str, Any]) -> StoredRun:
    began = _time(journal.get("began"))
    listed = Listed(key, began or BEGINNING_OF_TIME, journal)
    ended = bool(listed.answer)
    return StoredRun(
        listed.test,
        key,
        ended_at=_time(journal.get(CHANGED)) or began,
        is_finished=ended,
        has_passed=ended and not listed.failed,
        kind=listed.kind,
    )


def _time(text: object) -> datetime | None:
    try:
        return as_utc(datetime.fromisoformat(str(text)))
    except ValueError:
        return None
