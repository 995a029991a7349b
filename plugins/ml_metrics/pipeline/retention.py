"""How long run folders are kept."""

from __future__ import annotations

import secrets
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError, FileMissingError, MlMetricsError, UnreadableInputError
from ml_metrics.core.model import JobStatus, Run
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import BEGINNING_OF_TIME, as_utc
from ml_metrics.pipeline.experiments.journal import CHANGED, EXPERIMENTS_FOLDER, Listed, remove_start
from ml_metrics.pipeline.experiments.own_searches import forget, recorded
from ml_metrics.pipeline.run_state import bring_back
from ml_metrics.store import storage
from ml_metrics.store.confined import Usage, name_problem
from ml_metrics.store.documents import DOCUMENTS, MAX_BYTES, Documents
from ml_metrics.store.markers import Markers
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import OldRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ml_metrics.core.settings import Settings
    from ml_metrics.warehouse import Incident, Warehouse


log = logger_of(__name__)

MAX_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Ages:
    """The age at which the folder of a run is removed; None: never."""

    passed: timedelta | None = None
    failed: timedelta | None = None
    """That of a run that failed or never finished."""

    @classmethod
    def of(cls, settings: Settings) -> Ages:
        return cls(*(days(name, getattr(settings, name)) for name in ("keep_runs_days", "keep_failed_runs_days")))

    @property
    def are_set(self) -> bool:
        """Whether any run is ever removed."""
        return self.passed is not None or self.failed is not None


def days(name: str, text: str) -> timedelta | None:
    """None for an empty setting."""
    if not text.strip():
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_DAYS):
        raise ConfigError(
            f"[ml_metrics] {name}: should be a whole number of days from 1 to {MAX_DAYS:,}, or empty, not {text!r}"
        )
    return timedelta(days=int(text))


MIN_UNFINISHED = timedelta(days=90)
"""How long a run that never finished is kept at least: no run is in progress for so long without a new document."""
MESSAGES_SINCE = timedelta(days=60)
"""Messages that wait for longer are not sent any more."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The run folders that incidents and messages still need."""

    incidents: Mapping[str, Incident]
    """The open incident of each test that has one."""
    run_keys: frozenset[str] = frozenset()
    """The runs whose messages are not sent yet."""

    @classmethod
    def of(cls, storage_root: str, deployment: str, warehouse: Warehouse | None, now: datetime) -> Needed:
        """Without a warehouse there are no incidents."""
        keys = set()
        for marker in Markers.of(storage_root, deployment).all():
            keys.update(f"{marker.run_folder}/{marker.messages}".split("/"))
        if warehouse is None:
            return cls({}, frozenset(keys))
        keys.update(one.run_key for one in warehouse.messages.waiting(now - MESSAGES_SINCE))
        return cls(warehouse.incidents.all_open(), frozenset(keys))

    def why(self, run: StoredRun, ended_at: datetime) -> str:
        """Empty if the run is not needed."""
        incident = self.incidents.get(run.test)
        if incident is not None and (run.key in incident.run_keys or ended_at >= incident.opened_at):
            return "open incident"
        return "a message waits" if run.key in self.run_keys else ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A run, and why it is kept."""

    run: StoredRun
    kept: str
    """Empty if it is to be removed."""


def choose(runs: Iterable[StoredRun], ages: Ages, needed: Needed, now: datetime | None = None) -> list[Choice]:
    """Decide about every run of one test."""
    found, now = list(runs), now or datetime.now(UTC)
    good = [run for run in found if run.has_passed and run.ended_at and not (run.is_trial or run.problem)]
    newest_good = max(good, key=lambda run: (run.ended_at, run.key), default=None)
    return [Choice(run, "newest good run" if run is newest_good else why_kept(run, ages, needed, now)) for run in found]


def why_kept(run: StoredRun, ages: Ages, needed: Needed, now: datetime) -> str:
    """Of a run that is not the newest good one of its test; empty if it is not kept."""
    if run.problem or run.ended_at is None:
        return run.problem or "its end is unknown"
    if why := needed.why(run, run.ended_at):
        return why
    age = ages.passed if run.has_passed else ages.failed
    if age is None:
        return "for ever"
    if not run.is_finished:
        return "not finished" if now - run.ended_at < max(age, MIN_UNFINISHED) else ""
    return f"for {age.days} days" if now - run.ended_at < age else ""


def prune(
    tests: Iterable[str],
    stored: StoredRuns,
    ages: Ages,
    needed: Needed,
    remover: Remover,
    in_progress: Callable[[Collection[Run]], Collection[str]] = lambda _: (),
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


REMOVED = "removed"
"""The folder below the documents of the storage root in which removed runs are."""


@dataclass(frozen=True, slots=True)
class Remover:
    """Removes run folders from a storage root."""

    root: str
    is_late: Callable[[], bool] = lambda: False

    def remove(self, run: StoredRun) -> Usage:
        if storage.is_local(self.root):
            name = f"{DOCUMENTS}/{REMOVED}/{run.key}.{secrets.token_hex(4)}"
            return self._top.remove_all(name, self.is_late) if self._top.rename(run.name, name) else Usage()
        self._announced.write(run.key, {"test": run.test, "at": datetime.now(UTC).isoformat()})
        try:
            removed = Usage(1, len(self._top.read(_identity_of(run.name), MAX_BYTES)))
        except FileMissingError:
            removed = Usage()
        self._top.remove(_identity_of(run.name))
        removed.add(self._finish(run.key, run.name))
        return removed

    def resume(self) -> Usage:
        """Remove what earlier calls have left."""
        removed = Usage()
        if storage.is_local(self.root):
            for name in self._left():
                removed.add(self._top.remove_all(name, self.is_late))
            return removed
        for key in self._announced.names():
            try:
                name = self._announced_name(key)
            except UnreadableInputError as error:
                log.warning("%s", error)
                continue
            if self._top.exists(_identity_of(name)):
                self._announced.remove(key)  # it was not removed yet, or the run was started again
            else:
                removed.add(self._finish(key, name))
        return removed

    def left(self) -> Usage:
        """What earlier calls have left, on a disk."""
        found = Usage()
        if storage.is_local(self.root):
            for name in self._left():
                found.add(self._top.usage(name))
        return found

    def _left(self) -> list[str]:
        return [f"{DOCUMENTS}/{REMOVED}/{name}" for name in self._top.subfolders(f"{DOCUMENTS}/{REMOVED}")]

    def _announced_name(self, key: str) -> str:
        """The folder of a run whose removal is announced."""
        name = f"{self._announced.read(key).get('test')}/{key}"
        if name.count("/") != 1 or name_problem(name):
            raise UnreadableInputError(f"{self._announced.path_of(key)}: names no run folder; remove the file")
        return name

    def _finish(self, key: str, name: str) -> Usage:
        removed = self._top.remove_all(name, self.is_late)
        if not removed.problem:
            self._announced.remove(key)
        return removed

    @property
    def _top(self) -> storage.Folder:
        return storage.Folder(self.root)

    @property
    def _announced(self) -> Documents:
        return Documents.of_deployment(self.root, REMOVED)


def _identity_of(name: str) -> str:
    return f"{name}/{DOCUMENTS}/run.json"


SETTING = "keep_rows_days"
MIN_DAYS = 90
"""Pages show a month or a quarter, and messages are decided by the rows of 60 days."""


def old_rows(setting: str, warehouse: Warehouse) -> OldRows | None:
    """None if the setting keeps every row."""
    now, store = datetime.now(UTC), warehouse.database.store
    age = days(SETTING, setting)
    if age is None:
        return None
    if age < timedelta(days=MIN_DAYS):
        raise ConfigError(_too_few(age, MIN_DAYS, "pages and messages read"))
    horizon = store.horizon
    if horizon > BEGINNING_OF_TIME and now - age > horizon:
        raise ConfigError(
            _too_few(age, (now - horizon).days + 1, "with the setting history_days, BigQuery is read for")
        )
    return OldRows(warehouse.database, now - age)


def _too_few(age: timedelta, least: int, why: str) -> str:
    return (
        f"[ml_metrics] {SETTING}: {age.days} is too few: {why} {least} days of rows; set {least} or more, or leave "
        "the setting empty to keep every row"
    )


READ_AT_ONCE = 16
"""How many runs in a bucket are read at the same time."""
RUN = "run"
MOST_FOLDERS = storage.ListingLimits(files=1_000_000)
"""How many tests, and runs of a test, are looked at."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run folder."""

    test: str
    key: str
    run: Run | None = None
    ended_at: datetime | None = None
    """When its workload ended or, if that is unknown, was queued."""
    is_finished: bool = False
    """Whether the last task has decided. It has not while a run is in progress, nor after a clear."""
    has_passed: bool = False
    is_trial: bool = False
    kind: str = RUN
    """Of a journal of trials: `comparison` or `search`."""
    problem: str = ""
    """Why the folder is none of this deployment's, or cannot be read; empty if neither."""

    @property
    def name(self) -> str:
        """The folder, in the storage root."""
        return f"{self.test}/{self.key}"


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The run folders of a deployment. Others in the same storage root are listed with a problem."""

    root: str
    deployment: str

    def tests(self) -> list[str]:
        return [name for name in storage.Folder(self.root).subfolders("", MOST_FOLDERS) if name != DOCUMENTS]

    def of_test(self, test: str) -> Iterator[StoredRun]:
        """Folders that are not named by a run key are left out: they are no runs."""
        keys = filter(is_key, storage.Folder(self.root).subfolders(test, MOST_FOLDERS))
        yield from _read_all(self.root, lambda key: self.read(test, key), keys)

    def read(self, test: str, key: str) -> StoredRun:
        """As its documents state it now."""
        folder = RunFolder(storage.join(self.root, test, key), self.root, strict=True)
        try:
            start = folder.read("run")
            if start is None:
                return StoredRun(test, key, problem="it has no run.json")
            run = Run(test, *(str(start.get(name)) for name in ("dag_id", "run_id", "deployment")))
            if (start.get("test"), run.key, run.deployment) != (test, key, self.deployment):
                raise UnreadableInputError(f"it is of deployment {run.deployment!r}, or was copied from another run")
            workload, gate = folder.read_workload(), folder.read("gate")
        except MlMetricsError as error:
            return StoredRun(test, key, problem=str(error))
        stored = StoredRun(test, key, run, is_trial=bool(start.get("trial")))
        if workload is None:
            return stored
        ended_at = workload.ended_at or workload.started_at or workload.queued_at
        return replace(
            stored,
            ended_at=ended_at and as_utc(ended_at),
            is_finished=gate is not None,
            has_passed=gate is not None and not gate.get("reasons") and workload.status is JobStatus.SUCCESS,
        )


def bring_back_all(stored: StoredRuns) -> None:
    """Bring back the folders that planned faults took away in runs whose processes are gone."""
    top = storage.Folder(stored.root)
    for test in stored.tests() if storage.is_local(stored.root) else ():
        for key in filter(is_key, top.subfolders(test, MOST_FOLDERS)):
            if any(name.startswith("away-") for name in top.subfolders(f"{test}/{key}/{DOCUMENTS}")):
                bring_back(RunFolder(storage.join(stored.root, test, key), stored.root), time.time())


def _read_all(root: str, read: Callable[[str], StoredRun], keys: Iterable[str]) -> Iterator[StoredRun]:
    if storage.is_local(root):
        yield from map(read, keys)
        return
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        yield from pool.map(read, keys)


def is_key(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


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
        for stored in _read_all(self.root, self.read, sizes):
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
        try:
            journal = self._documents.read(key)
            if (deployment := journal.get("deployment") or self.deployment) != self.deployment:
                raise UnreadableInputError(f"it is of deployment {deployment!r}")
            return _stored(key, journal)
        except MlMetricsError as error:
            return StoredRun("", key, kind="journal", problem=str(error))
        except (AttributeError, TypeError, ValueError) as error:
            return StoredRun("", key, kind="journal", problem=f"it cannot be read: {error!r}")

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
        return Documents.of_deployment(self.root, EXPERIMENTS_FOLDER)


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
