"""A pass over all tests: whether their files read, their DAGs exist and run, and what to report about the others.

What was reported is kept with the known tests, and replaced as a whole after the messages are written. A pass that dies
in between is repeated by the next one, which makes the same messages under the same keys.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from http import HTTPStatus
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.import_errors import DagImportError
from ml_metrics.alerts.message import Fact, Message, MessageKind, Notice, page_of_test
from ml_metrics.alerts.problems import short_name
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.config.contact import contact_in
from ml_metrics.config.document import MAX_BYTES
from ml_metrics.config.loading import ConfigFolder, LoadedTests, load_tests, read_file
from ml_metrics.config.naming import CANNOT_BE_READ
from ml_metrics.config.problems import Problem
from ml_metrics.config.schedule import start_of_run, time_before
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.extras import reaches_triggerer
from ml_metrics.core.text import logger_of, printable
from ml_metrics.core.values import short_hash
from ml_metrics.warehouse import (
    DEFINITION,
    IMPORT_ERROR,
    MISSED,
    MISSING,
    PAUSED,
    RENAMED,
    UNREADABLE,
    VANISHED,
    KnownState,
    KnownTest,
    Warehouse,
    carried_over,
    known_test,
)

log = logger_of(__name__)

SLACK = timedelta(hours=2)
"""How much later than its schedule and its longest duration allow a run may end.

A run that Airflow has created is reported by its deadline, which comes first, if the triggerer can call it.
"""
SETTLE_SECONDS = 5.0
"""A file may be read while it is being written: a new problem counts if it is still there after this time."""
ENDED = frozenset({VANISHED, RENAMED})
"""Problems of a test that is gone: an acknowledgement ends them."""
SHOWN = 3
"""How many problems of a file a message has."""
TIME_LIMIT_SECONDS = 5.0
GIT = (
    "git --no-pager --literal-pathspecs -c core.fsmonitor=false -c core.hooksPath=/dev/null -c log.showSignature=false"
)
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
"""The checkout's own configuration may name programs: none of the commands used here starts one."""
HEADLINES = {
    UNREADABLE: "{} does not run: its file cannot be read",
    VANISHED: "{} vanished: no file defines it any more",
    RENAMED: "{} has a new name",
    PAUSED: "{} was paused",
    MISSING: "{} does not run: Airflow has no DAG of it",
    MISSED: "{} did not run as scheduled",
    IMPORT_ERROR: "{} does not run: Airflow cannot import its DAG file",
}
ADVICE = {
    UNREADABLE: "No run starts until the file is fixed. `ml-metrics validate FILE` lists all its problems.",
    VANISHED: "If it was removed on purpose, `ml-metrics ack {}` closes this incident.",
    RENAMED: "`ml-metrics ack {}` closes this incident.",
    PAUSED: "If that is on purpose, `ml-metrics ack {}` ends the matter.",
    MISSED: "Look at its DAG in Airflow: whether it has a queued run, and whether the scheduler is alive.",
    IMPORT_ERROR: "None of the tests in that file runs until Airflow can import it again.",
}


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
    is_first: bool

    def __str__(self) -> str:
        first = ", the first time, so that nothing is reported" if self.is_first else ""
        return f"{self.tests} tests, {self.broken} with problems, {self.messages} messages{first}"


def watch(
    warehouse: Warehouse, mail: MailSettings, around: Surroundings, now: datetime, post: Callable[[Message], object]
) -> Outcome:
    """Compare every test with what is known, report what changed, and keep what was found."""
    state = warehouse.known_tests.read()
    first = state.version == 0
    found = _look(state, warehouse, around, now)
    known = {name: set(test.problems) for name, test in state.tests.items()}
    if not first and any(set(problems) - known.get(name, set()) for name, problems in found.problems.items()):
        around.settle(SETTLE_SECONDS)
        found = _look(state, warehouse, around, now)
    tests = _without_acknowledged(found, warehouse)
    quiet = {name for name, row in warehouse.quarantines.newest().items() if row.holds(now)}
    quiet |= {name for name, test in tests.items() if test.is_quiet(now)}
    changes = [] if first else list(_changes(tests, quiet))
    messages = 0

    def group_of(change: Change) -> tuple[tuple[str, ...], str, bool]:
        return mail.recipients_of(change.test.emails), change.test.owner, change.works_again

    with_commits = sorted(_with_commits(changes, found, around.config_root), key=group_of)
    for (recipients, _, works_again), each in groupby(with_commits, key=group_of):
        group = list(each)
        message = message_about(group, recipients, mail, f"{warehouse.database.deployment}-{state.version}")
        post(message)
        messages += 1
        for test, new in ((change.test, change.new) for change in group):
            name, reasons = f"{DEFINITION}{test.test}", sorted({*test.reported, *new})
            if works_again:
                warehouse.incidents.close(name, message.key)
            else:
                warehouse.incidents.report(name, message.key, fingerprint=" ".join(reasons), reasons=reasons)
    news = {change.test.test: change for change in changes}
    kept = {
        name: replace(
            test,
            reported=news[name].reported if name in news else test.reported,
            ignored=tuple(test.problems if first else (one for one in test.ignored if one in test.problems)),
        )
        for name, test in tests.items()
        if test.fingerprint or test.problems
    }
    if kept != state.tests or first:
        warehouse.known_tests.replace(kept, state.version, now)
    return Outcome(len(kept), sum(bool(test.problems) for test in kept.values()), messages, first)


def tests_now(state: KnownState, library: LoadedTests, root: Path, since: datetime) -> dict[str, KnownTest]:
    """Every test with its problems: those of its file now, and those that the last pass found in Airflow.

    A test that no pass has seen is expected to have run since a time.
    """
    found = compare_files(state.tests, library, root, since)
    for name, test in state.in_python.items():
        found.tests.setdefault(name, carried_over(test, state.tests.get(name)))
    tests = {}
    for name, test in found.tests.items():
        earlier = state.tests[name].problems if name in state.tests else {}
        gone = {one: text for one, text in earlier.items() if test.in_python or not one.startswith("file:")}
        tests[name] = replace(test, problems={**gone, **found.problems.get(name, {})})
    return tests


def _look(state: KnownState, warehouse: Warehouse, around: Surroundings, now: datetime) -> FileFindings:
    found = compare_files(state.tests, load_tests(around.config_root), around.config_root, now)
    for name, test in state.in_python.items():
        found.tests.setdefault(name, carried_over(replace(test, since=now.timestamp()), state.tests.get(name)))
    for name, test in state.tests.items():
        found.tests.setdefault(name, test)  # files that were never readable, and are valid or gone now
    _add_problems_of_dags(found, state, warehouse, around, now)
    for error in around.import_errors:
        sentence = f"{error.file}{f':{error.line}' if error.line else ''}: {error.last_line}"
        tests = [
            test
            for test in found.tests.values()
            if test.file == error.file or (test.dag_file and error.file.endswith(f"/{test.dag_file}"))
        ]
        for test in tests or [KnownTest(Path(error.file).name, file=error.file)]:
            # that the DAG has not run follows from it
            own = found.problems.get(test.test, {}).items()
            kept = {name: text for name, text in own if name.startswith("file:") or name == PAUSED}
            found.problems[test.test] = kept
            found.add(test, IMPORT_ERROR, sentence)
    for name, test in found.tests.items():
        found.tests[name] = replace(test, problems=found.problems.get(name, {}))
    return found


def _without_acknowledged(found: FileFindings, warehouse: Warehouse) -> dict[str, KnownTest]:
    """The tests without those that are gone and whose incident a user acknowledged: they are forgotten."""
    tests = dict(found.tests)
    gone = [
        name
        for name, test in tests.items()
        if ENDED.intersection(test.reported) and test.problems and set(test.problems) <= ENDED
    ]
    incidents = warehouse.incidents.all_open() if gone else {}
    for name in gone:
        incident = incidents.get(f"{DEFINITION}{name}")
        if incident is not None and incident.acknowledged_by:
            log.info("%s is gone, and %s acknowledged that", name, incident.acknowledged_by)
            for test in (f"{DEFINITION}{name}", name):
                warehouse.incidents.close(test, incident.opened_by)
            if tests[name].in_python:
                warehouse.known_tests.forget(name)
            del tests[name]
    return tests


@dataclass(slots=True)
class FileFindings:
    """What the test files show."""

    tests: dict[str, KnownTest] = field(default_factory=dict)
    """Each known test by name: as it is defined now, or as it last was."""
    problems: dict[str, dict[str, str]] = field(default_factory=dict)
    """The sentences about each test with a problem, by the name of the problem."""
    places: dict[str, Problem] = field(default_factory=dict)
    """The first problem in the file of each test that does not read."""

    def add(self, test: KnownTest, problem: str, sentence: str) -> None:
        self.tests.setdefault(test.test, test)
        self.problems.setdefault(test.test, {})[problem] = sentence

    def add_unreadable(self, test: KnownTest, problems: Sequence[Problem]) -> None:
        lines = list(dict.fromkeys(map(str, problems)))
        more = f" (and {len(lines) - SHOWN} more)" if len(lines) > SHOWN else ""
        self.add(test, UNREADABLE, f"{'; '.join(lines[:SHOWN])}{more}")
        self.places[test.test] = problems[0]


def compare_files(known: Mapping[str, KnownTest], library: LoadedTests, root: Path, now: datetime) -> FileFindings:
    found = FileFindings()
    for definition in library.tests:
        found.tests[definition.name] = carried_over(known_test(definition, now), known.get(definition.name))
    absent = [
        test
        for name, test in sorted(known.items())
        if name not in found.tests and not test.in_python and not test.file.endswith(".py")
    ]
    claimed: set[Problem] = set()
    for test in absent:
        # its own problem, one of its file, or of the whole folder
        problems = [one for one in library.problems if one.test == test.test or one.file in {test.file, str(root)}]
        claimed.update(problems)
        if problems:
            found.add_unreadable(test, problems)
    unknown: dict[str, list[Problem]] = {}
    for problem in library.problems:
        if problem not in claimed and problem.file != str(root):
            unknown.setdefault(problem.test, []).append(problem)
    for name, own in unknown.items():  # the tests of these files are not known: they may be new
        contact = contact_in(Path(own[0].file), root)
        shown = f"{name}{CANNOT_BE_READ}" if name in found.tests else name
        test = KnownTest(shown, owner=contact.owner, emails=contact.emails, file=own[0].file)
        found.add_unreadable(test, own)
    # a file that was never readable, and is now gone or valid, is not a problem any more
    vanished = [test for test in absent if test.test not in found.problems and test.fingerprint]
    names = _new_names(vanished, known, found)
    for test in vanished:
        new, before = names.get(test.test), next(iter(ENDED.intersection(test.reported)), "")
        if new is not None:
            sentence = (
                f"It is named {new.test} now, in {new.file}. Its earlier runs stay under the old name: to judge the "
                f"first runs of {new.test} by them, set `compare_to: {test.test}` in its conditions; to keep one "
                f"history, set `name: {test.test}`."
            )
            found.add(test, RENAMED, sentence)
        elif before:
            found.add(test, before, test.problems.get(before, ""))
        else:
            gone = "does not define it any more" if Path(test.file).exists() else "does not exist any more"
            found.add(test, VANISHED, f"{test.file} {gone}, and no other file defines it.")
    return found


def _new_names(
    vanished: Sequence[KnownTest], known: Mapping[str, KnownTest], found: FileFindings
) -> dict[str, KnownTest]:
    """The new test that each vanished one became: of the same definition, or the only new one of its file."""
    new = [test for name, test in found.tests.items() if name not in known and test.fingerprint]
    renamed: dict[str, KnownTest] = {}
    for old in vanished:
        same = [test for test in new if test.fingerprint == old.fingerprint]
        here = [test for test in new if test.file == old.file]
        if len(same) > 1:
            same = [test for test in same if test.file == old.file] or same
        if len(same) == 1:
            renamed[old.test] = same[0]
        elif len(here) == 1 and sum(test.file == old.file for test in vanished) == 1:
            renamed[old.test] = here[0]
    return renamed


class DagFacts(NamedTuple):
    """What Airflow knows about a DAG."""

    exists: bool = True
    is_paused: bool = False
    next_run: datetime | None = None
    file: str = ""
    """Below the DAGs folder."""


def read_dags(tests: Iterable[KnownTest], get_dag: Callable[[str], Any]) -> dict[str, DagFacts]:
    """The facts about the DAGs of tests with a schedule, and of those whose DAG file is unknown.

    `get_dag` is that of a task instance. If it fails, nothing is known about the DAGs that are left.
    """
    found: dict[str, DagFacts] = {}
    for test in tests:
        if not test.schedule and test.dag_file:
            continue
        try:
            dag = get_dag(test.test)
        except Exception as error:  # noqa: BLE001  (Airflow's errors have no common family)
            detail = getattr(getattr(error, "error", None), "detail", None)
            if not isinstance(detail, dict) or detail.get("status_code") != HTTPStatus.NOT_FOUND:
                log.warning("Airflow does not state which DAGs are paused: %s: %s", type(error).__name__, error)
                return found
            found[test.test] = DagFacts(exists=False)
        else:
            next_run = dag.next_dagrun and start_of_run(test.schedule, dag.next_dagrun)
            found[test.test] = DagFacts(is_paused=dag.is_paused, next_run=next_run, file=dag.relative_fileloc or "")
    return found


def _add_problems_of_dags(
    found: FileFindings, state: KnownState, warehouse: Warehouse, around: Surroundings, now: datetime
) -> None:
    defined = {name: test for name, test in found.tests.items() if name not in found.problems and test.fingerprint}
    facts = read_dags(defined.values(), around.get_dag) if around.get_dag else {}
    expected = [time for test in defined.values() if (time := latest_expected(test, now))]
    last_runs = warehouse.runs.last_scheduled(min(expected) - timedelta(minutes=1)) if expected else {}
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


def problems_of_dag(
    test: KnownTest, facts: DagFacts | None, last_run: datetime | None, now: datetime, dags_folder: Path | None = None
) -> dict[str, str]:
    """The problems of the DAG of a defined test: sentences, by the names of the problems."""
    file = Path(test.file)
    # a file outside the DAGs folder may be in a bundle that this process has not
    if dags_folder and dags_folder.is_dir() and file.is_relative_to(dags_folder) and not file.exists():
        return {VANISHED: f"{test.file} does not exist any more. It defined this test as a DAG in Python."}
    if not test.schedule:
        return {}
    if facts is not None and not facts.exists:
        sentence = "Airflow has no DAG of it: see the import errors on Airflow's Dags page and the DAG processor's log."
        # Airflow has parsed the DAG of a new test by then
        return {MISSING: sentence} if now.timestamp() - test.since > timedelta(hours=1).total_seconds() else {}
    if facts is not None and facts.is_paused:
        return {PAUSED: f"Its DAG is paused: no run of the schedule {test.schedule!r} starts until it is unpaused."}
    expected, next_run = latest_expected(test, now), facts.next_run if facts is not None else None
    # a run that Airflow has created is reported by its deadline and its gate, however it ends
    is_reported = not test.recorded
    if next_run is not None:
        is_reported = next_run > now and (reaches_triggerer() or not test.recorded)
    if expected is None or (last_run is not None and last_run >= expected) or is_reported:
        return {}
    sentence = f"No run of the schedule {test.schedule!r} has ended since {expected:%Y-%m-%d %H:%M} UTC, its last time."
    return {MISSED: sentence}


def latest_expected(test: KnownTest, now: datetime) -> datetime | None:
    """The newest time of a test's schedule whose run must have ended by now; None if there is none yet."""
    expected = time_before(test.schedule, now - timedelta(seconds=test.longest) - SLACK)
    return expected if expected is not None and expected.timestamp() >= test.since else None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one test: new problems, or that the last one is gone."""

    test: KnownTest
    """With its problems, if it has any."""
    new: tuple[str, ...] = ()
    """The names of the new problems; empty if the test works again."""
    last_good: str = ""
    """The last commit in which its file could be read, if that is known."""

    @property
    def works_again(self) -> bool:
        return not self.new

    @property
    def reported(self) -> tuple[str, ...]:
        return (*self.test.reported, *self.new) if self.new else ()


def _changes(tests: dict[str, KnownTest], quiet: Collection[str]) -> Iterator[Change]:
    for name, test in sorted(tests.items()):
        never_started = () if test.started else (PAUSED,)
        known = {*test.reported, *test.ignored, *never_started}
        new = tuple(one for one in test.problems if one not in known)
        if new and name not in quiet:
            yield Change(test, new)
        elif test.reported and not set(test.problems) - set(test.ignored):
            yield Change(test)


def _with_commits(changes: Sequence[Change], found: FileFindings, root: Path) -> Iterator[Change]:
    """The changes with the last good commit of each file; each file is looked up once."""
    last_good = cache(lambda file, test_file: last_good_commit(Path(file), Path(test_file), root))
    last = cache(lambda file: last_commit(Path(file)))
    for change in changes:
        test, place = change.test, found.places.get(change.test.test)
        commit = ""
        if UNREADABLE in change.new and place is not None and place.file != str(root):
            commit = last_good(place.file, test.file)
        elif VANISHED in change.new and test.file and not Path(test.file).exists():
            commit = last(test.file)
        yield replace(change, last_good=commit)


def message_about(changes: Sequence[Change], recipients: Sequence[str], mail: MailSettings, mark: str) -> Message:
    """The message about changes of the same kind, of tests of one owner. `mark` makes its key unique."""
    first = changes[0]
    test, works_again, url = first.test, first.works_again, mail.dashboard_url

    def stated(change: Change) -> tuple[str, ...]:
        return tuple(change.test.problems[name] for name in change.new)

    if len(changes) == 1:
        headline = HEADLINES[first.new[0]].format(test.test) if first.new else ""
        sentences = (*stated(first), *(ADVICE[name].format(test.test) for name in first.new if name in ADVICE))
        if works_again:
            headline = f"{test.test} works again (was: {' and '.join(map(short_name, test.reported))})"
            sentences = ("Its file, its DAG and its schedule are valid. The next run starts as scheduled.",)
        facts = {
            "owner": test.owner,
            "file": test.file,
            "schedule": test.schedule or "none",
            "last good commit": first.last_good,
            "DAG file": test.dag_file,
        }
        items = tuple(Fact(name, value) for name, value in facts.items() if value)
        button = Fact("dashboard", "Open the test", page_of_test(url, test.test) if url else "")
        about, sender = test.test, test.sender
    else:
        headline = (
            f"{len(changes)} tests of {test.owner} {'work again' if works_again else 'are not running as defined'}"
        )
        sentences, about, sender = (), "", ""
        items = tuple(
            Fact(
                one.test.test,
                "; ".join((*stated(one), *([f"last good commit: {one.last_good}"] if one.last_good else [])))
                or "works again",
                page_of_test(url, one.test.test) if url else "",
            )
            for one in changes
        )
        button = Fact("dashboard", "Open the dashboard", f"{url}/" if url else "")
    notice = Notice(headline, sentences, items, (button,), test=about, owner=test.owner, is_good=works_again)
    digest = short_hash(repr(([(change.test.test, change.new) for change in changes], tuple(recipients))))
    key = f"watch-{mark}-{'mended' if works_again else 'broken'}-{digest}"
    return compose_notice(key, MessageKind.FILE, notice, recipients, sender or mail.sender)


def last_good_commit(file: Path, test_file: Path, root: Path) -> str:
    """The last one in which the test file could be read, else "". `file` is that file, or an include of it."""

    def is_good(data: bytes) -> bool:
        try:
            with ConfigFolder(root) as folder:
                folder.use_content(file, data)
                return not read_file(test_file, folder).problems
        except (ConfigError, OSError):
            return False

    return "" if file.suffix == ".jsonnet" else last_commit(file, is_good)


def last_commit(file: Path, is_good: Callable[[bytes], bool] = lambda _: True) -> str:
    """The last commit that changed a file, or the last with a content; "" if it is unknown."""
    try:
        deadline = time.monotonic() + TIME_LIMIT_SECONDS
        for commit, data in _versions(file.absolute(), deadline):
            if is_good(data):
                return commit
            if time.monotonic() > deadline:
                break
    except (OSError, subprocess.SubprocessError, ValueError):
        pass  # no git, no checkout, one of another user, or too slow
    return ""


def _versions(file: Path, deadline: float) -> Iterator[tuple[str, bytes]]:
    above = next(parent for parent in file.parents if parent.is_dir())
    path = file.relative_to(above).as_posix()
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*arguments: str) -> bytes:
        return subprocess.run(
            [*GIT.split(), "-C", str(above.resolve()), *arguments],
            env={**own, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=max(0.1, deadline - time.monotonic()),
        ).stdout

    layout = "--format=%H%x1f%an%x1f%as%x1f%s"
    listed = git("rev-list", "--max-count=20", "--no-commit-header", layout, "HEAD", "--", path)
    for line in listed.decode(errors="replace").splitlines():
        name, *rest = line.split("\x1f", 3)
        author, day, subject = (printable(text)[:100] for text in rest)
        try:
            if int(git("cat-file", "-s", f"{name}:./{path}")) <= MAX_BYTES:
                yield f"{name[:12]} ({subject}, {author}, {day})", git("cat-file", "blob", f"{name}:./{path}")
        except subprocess.CalledProcessError:
            continue  # the commit that deleted it
