"""A pass over all tests: whether their files read, their DAGs exist and run, and what to report about the others.

What was reported is kept with the known tests, and replaced as a whole after the messages are written. A pass that dies
in between is repeated by the next one, which makes the same messages under the same keys.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.config.load import load_tests
from ml_metrics.notify.watch.dags_in_airflow import latest_expected, problems_of_dag, read_dags
from ml_metrics.notify.watch.files import compare_files
from ml_metrics.notify.watch.last_good import last_commit, last_good_commit
from ml_metrics.notify.watch.notices import Change, message_about
from ml_metrics.warehouse import KnownTest
from ml_metrics.warehouse.known_definition import carried_over
from ml_metrics.warehouse.known_tests import (
    DEFINITION,
    IMPORT_ERROR,
    MISSED,
    MISSING,
    PAUSED,
    RENAMED,
    UNREADABLE,
    VANISHED,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime

    from ml_metrics.alerts.message import Message
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.notify.watch.files import FileFindings
    from ml_metrics.notify.watch.import_errors import DagImportError
    from ml_metrics.warehouse import KnownState, Warehouse
from ml_metrics.log_lines import logger_of

log = logger_of(__name__)

SETTLE_SECONDS = 5.0
"""A file may be read while it is being written: a new problem counts if it is still there after this time."""
ENDED = frozenset({VANISHED, RENAMED})
"""Problems of a test that is gone: an acknowledgement ends them."""
A_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pass reads besides the warehouse."""

    config_root: Path
    dags_folder: Path | None = None
    get_dag: Callable[[str], Any] | None = None
    """That of a task instance; None where Airflow cannot be queried."""
    import_errors: Sequence[DagImportError] = ()
    settle: Callable[[float], None] = field(default=time.sleep)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass found."""

    tests: int
    broken: int
    messages: int
    is_first: bool = False

    def __str__(self) -> str:
        first = ", the first time, so that nothing is reported" if self.is_first else ""
        return f"{self.tests} tests, {self.broken} with problems, {self.messages} messages{first}"


def watch(
    warehouse: Warehouse, mail: MailSettings, around: Surroundings, now: datetime, post: Callable[[Message], object]
) -> Outcome:
    """Compare every test with what is known, report what changed, and keep what was found."""
    state = warehouse.known_tests.read()
    found = _look(state, warehouse, around, now)
    if state.version and _new_problems(found, state):
        around.settle(SETTLE_SECONDS)
        found = _look(state, warehouse, around, now)
    tests = _without_acknowledged(found, warehouse)
    quiet = _quiet(tests, warehouse, now)
    changes = [] if state.version == 0 else list(_changes(tests, quiet))
    messages = 0
    for recipients, group in _groups(_with_commits(changes, found, around.config_root), mail):
        message = message_about(group, recipients, mail, f"{warehouse.database.deployment}-{state.version}")
        post(message)
        messages += 1
        _record(group, message.key, warehouse)
    first = state.version == 0
    kept = {name: _kept(test, changes, is_first=first) for name, test in tests.items()}
    kept = {name: test for name, test in kept.items() if test.fingerprint or test.problems}
    if kept != state.tests or first:
        warehouse.known_tests.replace(kept, state.version, now)
    broken = sum(bool(test.problems) for test in kept.values())
    return Outcome(len(kept), broken, messages, first)


def _look(state: KnownState, warehouse: Warehouse, around: Surroundings, now: datetime) -> FileFindings:
    """Return every test, with its problems."""
    found = compare_files(state.tests, load_tests(around.config_root), around.config_root, now)
    for name, test in state.in_python.items():
        found.tests.setdefault(name, carried_over(replace(test, since=now.timestamp()), state.tests.get(name)))
    for name, test in state.tests.items():
        found.tests.setdefault(name, test)  # files that were never readable, and are valid or gone now
    _add_problems_of_dags(found, state, warehouse, around, now)
    _add_import_errors(found, around.import_errors)
    for name, test in found.tests.items():
        found.tests[name] = replace(test, problems=found.problems.get(name, {}))
    return found


def _add_problems_of_dags(
    found: FileFindings, state: KnownState, warehouse: Warehouse, around: Surroundings, now: datetime
) -> None:
    defined = {name: test for name, test in found.tests.items() if name not in found.problems and test.fingerprint}
    facts = read_dags(defined.values(), around.get_dag) if around.get_dag else {}
    expected = [time for test in defined.values() if (time := latest_expected(test, now))]
    last_runs = warehouse.runs.last_scheduled(min(expected) - A_MINUTE) if expected else {}
    for name, defined_test in defined.items():
        known, test = facts.get(name), defined_test
        if known is not None:
            starts = known.exists and not known.is_paused
            test = replace(test, dag_file=known.file or test.dag_file, started=test.started or starts)
        earlier = state.tests[name].problems if name in state.tests else {}
        if set(earlier) - {MISSED}:
            test = replace(test, since=now.timestamp())  # it could not run before, so it is not late
        found.tests[name] = test
        unsure = {one: earlier[one] for one in (PAUSED, MISSING) if one in earlier and known is None and test.schedule}
        problems = unsure or problems_of_dag(test, known, last_runs.get(name), now, around.dags_folder)
        for problem, sentence in problems.items():
            found.add(test, problem, sentence)


def _add_import_errors(found: FileFindings, errors: Sequence[DagImportError]) -> None:
    for error in errors:
        line = f":{error.line}" if error.line else ""
        sentence = f"{error.file}{line}: {error.last_line}"
        tests = [
            test
            for test in found.tests.values()
            if test.file == error.file or (test.dag_file and error.file.endswith(f"/{test.dag_file}"))
        ]
        for test in tests or [KnownTest(Path(error.file).name, file=error.file)]:
            # that the DAG has not run follows from it
            found.problems[test.test] = {
                name: text
                for name, text in found.problems.get(test.test, {}).items()
                if name.startswith("file:") or name == PAUSED
            }
            found.add(test, IMPORT_ERROR, sentence)


def _new_problems(found: FileFindings, state: KnownState) -> bool:
    return any(
        set(problems) - set(state.tests[name].problems if name in state.tests else ())
        for name, problems in found.problems.items()
    )


def _without_acknowledged(found: FileFindings, warehouse: Warehouse) -> dict[str, KnownTest]:
    """Return the tests without those that are gone and whose incident a user acknowledged: they are forgotten."""
    tests = dict(found.tests)
    gone = [name for name, test in tests.items() if ENDED.intersection(test.reported) and set(test.problems) <= ENDED]
    incidents = warehouse.incidents.all_open() if any(tests[name].problems for name in gone) else {}
    for name in gone:
        incident = incidents.get(f"{DEFINITION}{name}")
        if tests[name].problems and incident is not None and incident.acknowledged_by:
            log.info("%s is gone, and %s acknowledged that", name, incident.acknowledged_by)
            for test in (f"{DEFINITION}{name}", name):
                warehouse.incidents.close(test, incident.opened_by)
            if tests[name].in_python:
                warehouse.known_tests.forget(name)
            del tests[name]
    return tests


def _quiet(tests: dict[str, KnownTest], warehouse: Warehouse, now: datetime) -> set[str]:
    """Return the tests in quarantine, about which no message is sent."""
    by_hand = {name for name, row in warehouse.quarantines.newest().items() if row.holds(now)}
    return by_hand | {name for name, test in tests.items() if test.is_quiet(now)}


def _changes(tests: dict[str, KnownTest], quiet: Collection[str]) -> Iterator[Change]:
    for name, test in sorted(tests.items()):
        never_started = () if test.started else (PAUSED,)
        known = {*test.reported, *test.ignored, *never_started}
        new = tuple(one for one in test.problems if one not in known)
        left = set(test.problems) - set(test.ignored)
        if new and name not in quiet:
            yield Change(test, new)
        elif test.reported and not left:
            yield Change(test)


def _with_commits(changes: Sequence[Change], found: FileFindings, root: Path) -> Iterator[Change]:
    """Yield the changes with the last good commit of each file; each file is looked up once."""
    commits: dict[tuple[str, str], str] = {}
    for change in changes:
        test, place = change.test, found.places.get(change.test.test)
        if UNREADABLE in change.new and place is not None and place.file != str(root):
            key = (place.file, test.file)
            if key not in commits:
                commits[key] = str(last_good_commit(Path(place.file), Path(test.file), root) or "")
        elif VANISHED in change.new and test.file and not Path(test.file).exists():
            key = (test.file, "")
            if key not in commits:
                commits[key] = str(last_commit(Path(test.file)) or "")
        else:
            yield change
            continue
        yield replace(change, last_good=commits[key])


def _groups(changes: Iterator[Change], mail: MailSettings) -> Iterator[tuple[tuple[str, ...], list[Change]]]:
    """Yield the changes of each message: those of one owner, broken or fixed."""

    def group_of(change: Change) -> tuple[tuple[str, ...], str, bool]:
        return mail.recipients_of(change.test.emails), change.test.owner, change.works_again

    for (recipients, _, _), group in groupby(sorted(changes, key=group_of), key=group_of):
        yield recipients, list(group)


def _record(changes: Sequence[Change], message: str, warehouse: Warehouse) -> None:
    """Open, change or close the incident of each test."""
    for change in changes:
        name = f"{DEFINITION}{change.test.test}"
        if change.works_again:
            warehouse.incidents.close(name, message)
        else:
            reasons = sorted({*change.test.reported, *change.new})
            warehouse.incidents.report(name, message, fingerprint=" ".join(reasons), reasons=reasons)


def _kept(test: KnownTest, changes: Sequence[Change], *, is_first: bool) -> KnownTest:
    """Return the record of a test after its messages are written."""
    change = next((one for one in changes if one.test.test == test.test), None)
    reported = test.reported if change is None else (() if change.works_again else (*test.reported, *change.new))
    ignored = tuple(test.problems) if is_first else tuple(name for name in test.ignored if name in test.problems)
    return replace(test, reported=reported, ignored=ignored)
