"""A pass over all tests: whether their files read, their DAGs exist and run, and what to report about the others.

What was reported is kept with the known tests, and replaced as a whole after the messages are written. A pass that dies
in between is repeated by the next one, which makes the same messages under the same keys.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import Fact, MessageKind, Notice, page_of_test
from ml_metrics.alerts.problems import short_name
from ml_metrics.config.contact import contact_in
from ml_metrics.config.document import MAX_BYTES
from ml_metrics.config.loading import ConfigFolder, load_tests, read_file
from ml_metrics.config.naming import CANNOT_BE_READ
from ml_metrics.config.schedule import start_of_run, time_before
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.extras import reaches_triggerer
from ml_metrics.core.text import logger_of
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
    KnownTest,
    carried_over,
    known_test,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ml_metrics.alerts.import_errors import DagImportError
    from ml_metrics.alerts.message import Message
    from ml_metrics.alerts.settings import MailSettings
    from ml_metrics.config.loading import LoadedTests
    from ml_metrics.config.problems import Problem
    from ml_metrics.warehouse import KnownState, Warehouse


log = logger_of(__name__)

SLACK = timedelta(hours=2)
"""How much later than its schedule and its longest duration allow a run may end.

A run that Airflow has created is reported by its deadline, which comes first, if the triggerer can call it.
"""
NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class DagFacts:
    """What Airflow knows about a DAG."""

    exists: bool = True
    is_paused: bool = False
    next_run: datetime | None = None
    file: str = ""
    """Below the DAGs folder."""


def read_dags(tests: Iterable[KnownTest], get_dag: Callable[[str], Any]) -> dict[str, DagFacts]:
    """Return the facts about the DAGs of tests with a schedule, and of those whose DAG file is unknown.

    `get_dag` is that of a task instance. If it fails, nothing is known about the DAGs that are left.
    """
    found: dict[str, DagFacts] = {}
    for test in tests:
        if not test.schedule and test.dag_file:
            continue
        try:
            dag = get_dag(test.test)
        except Exception as error:  # noqa: BLE001  (Airflow's errors have no common family)
            if _status(error) != NOT_FOUND:
                log.warning("Airflow does not state which DAGs are paused: %s: %s", type(error).__name__, error)
                return found
            found[test.test] = DagFacts(exists=False)
        else:
            next_run = dag.next_dagrun and start_of_run(test.schedule, dag.next_dagrun)
            found[test.test] = DagFacts(is_paused=dag.is_paused, next_run=next_run, file=dag.relative_fileloc or "")
    return found


def problems_of_dag(
    test: KnownTest, facts: DagFacts | None, last_run: datetime | None, now: datetime, dags_folder: Path | None = None
) -> dict[str, str]:
    """Return the problems of the DAG of a defined test: sentences, by the names of the problems."""
    if test.in_python and _is_gone(test.file, dags_folder):
        return {VANISHED: f"{test.file} does not exist any more. It defined this test as a DAG in Python."}
    if not test.schedule:
        return {}
    since = datetime.fromtimestamp(test.since, now.tzinfo)
    if facts is not None and not facts.exists:
        sentence = "Airflow has no DAG of it: see the import errors on Airflow's Dags page and the DAG processor's log."
        # Airflow has parsed the DAG of a new test by then
        return {MISSING: sentence} if now - since > timedelta(hours=1) else {}
    if facts is not None and facts.is_paused:
        return {PAUSED: f"Its DAG is paused: no run of the schedule {test.schedule!r} starts until it is unpaused."}
    return _missed(test, facts, last_run, now)


def latest_expected(test: KnownTest, now: datetime) -> datetime | None:
    """Return the newest time of a test's schedule whose run must have ended by now; None if there is none yet."""
    expected = time_before(test.schedule, now - timedelta(seconds=test.longest) - SLACK)
    return expected if expected is not None and expected.timestamp() >= test.since else None


def _missed(test: KnownTest, facts: DagFacts | None, last_run: datetime | None, now: datetime) -> dict[str, str]:
    expected = latest_expected(test, now)
    if expected is None or (last_run is not None and last_run >= expected):
        return {}
    if facts is not None and facts.next_run is not None:
        if facts.next_run > now and (reaches_triggerer() or not test.recorded):
            return {}  # Airflow has created the run, and the run's deadline and its gate report how it ends
    elif not test.recorded:
        return {}
    sentence = f"No run of the schedule {test.schedule!r} has ended since {expected:%Y-%m-%d %H:%M} UTC, its last time."
    return {MISSED: sentence}


def _is_gone(file: str, dags_folder: Path | None) -> bool:
    """Whether a DAG file was deleted. A file outside the DAGs folder may be in a bundle that this process has not."""
    if dags_folder is None or not file or not dags_folder.is_dir():
        return False
    return Path(file).is_relative_to(dags_folder) and not Path(file).exists()


def _status(error: Exception) -> int:
    """Return the HTTP status with which Airflow's API server rejected a request; 0 if there was none."""
    detail = getattr(getattr(error, "error", None), "detail", None)
    return int(detail.get("status_code") or 0) if isinstance(detail, dict) else 0


SHOWN = 3
"""How many problems of a file a message has."""


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


def compare_files(known: Mapping[str, KnownTest], library: LoadedTests, root: Path, now: datetime) -> FileFindings:
    """Return what changed since the tests were read last."""
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
        problems = [problem for problem in library.problems if _is_about(problem, test, root)]
        claimed.update(problems)
        if problems:
            _add_unreadable(found, test, problems)
    _add_unknown(found, [problem for problem in library.problems if problem not in claimed], root)
    names = _new_names([test for test in absent if test.test not in found.problems and test.fingerprint], known, found)
    for test in absent:
        # a file that was never readable, and is now gone or valid, is not a problem any more
        if test.test not in found.problems and test.fingerprint:
            _add_vanished(found, test, names.get(test.test))
    return found


def tests_now(state: KnownState, library: LoadedTests, root: Path, since: datetime) -> dict[str, KnownTest]:
    """Return every test with its problems: those of its file now, and those that the last pass found in Airflow.

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


def _is_about(problem: Problem, test: KnownTest, root: Path) -> bool:
    """Whether a problem is why a known test is not defined: its own, one of its file, or of the whole folder."""
    return problem.test == test.test or problem.file in {test.file, str(root)}


def _add_unreadable(found: FileFindings, test: KnownTest, problems: Sequence[Problem]) -> None:
    lines = list(dict.fromkeys(map(str, problems)))
    more = f" (and {len(lines) - SHOWN} more)" if len(lines) > SHOWN else ""
    found.add(test, UNREADABLE, f"{'; '.join(lines[:SHOWN])}{more}")
    found.places[test.test] = problems[0]


def _add_unknown(found: FileFindings, problems: Sequence[Problem], root: Path) -> None:
    """Add files that do not read and whose tests are not known: they may be new."""
    by_test: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.file != str(root):
            by_test.setdefault(problem.test, []).append(problem)
    for name, own in by_test.items():
        contact = contact_in(Path(own[0].file), root)
        test = f"{name}{CANNOT_BE_READ}" if name in found.tests else name
        _add_unreadable(found, KnownTest(test, owner=contact.owner, emails=contact.emails, file=own[0].file), own)


def _new_names(
    vanished: Sequence[KnownTest], known: Mapping[str, KnownTest], found: FileFindings
) -> dict[str, KnownTest]:
    """Return the new test that each vanished one became: of the same definition, or the only new one of its file."""
    new = [test for name, test in found.tests.items() if name not in known and test.fingerprint]
    renamed: dict[str, KnownTest] = {}
    for old in vanished:
        same = [test for test in new if test.fingerprint == old.fingerprint]
        here = [test for test in new if test.file == old.file]
        gone_here = [test for test in vanished if test.file == old.file]
        if len(same) > 1:
            same = [test for test in same if test.file == old.file] or same
        if len(same) == 1:
            renamed[old.test] = same[0]
        elif len(here) == 1 and len(gone_here) == 1:
            renamed[old.test] = here[0]
    return renamed


def _add_vanished(found: FileFindings, test: KnownTest, new: KnownTest | None) -> None:
    known_before = next(iter({VANISHED, RENAMED}.intersection(test.reported)), "")
    if new is not None:
        sentence = (
            f"It is named {new.test} now, in {new.file}. Its earlier runs stay under the old name: to judge the first "
            f"runs of {new.test} by them, set `compare_to: {test.test}` in its conditions; to keep one history, set "
            f"`name: {test.test}`."
        )
        found.add(test, RENAMED, sentence)
    elif known_before:
        found.add(test, known_before, test.problems.get(known_before, ""))
    else:
        gone = "does not define it any more" if Path(test.file).exists() else "does not exist any more"
        found.add(test, VANISHED, f"{test.file} {gone}, and no other file defines it.")


MAX_COMMITS = 20
TIME_LIMIT_SECONDS = 5.0
MAX_SUBJECT = 100
SEPARATOR = "\x1f"
OPTIONS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false")
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
"""The checkout's own configuration may name programs: none of the commands used here starts one."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a file."""

    name: str
    author: str
    day: str
    subject: str

    def __str__(self) -> str:
        return f"{self.name[:12]} ({self.subject}, {self.author}, {self.day})"


def last_good_commit(file: Path, test_file: Path, root: Path) -> Commit | None:
    """The last one in which the test file could be read; None if unknown. `file` is that file, or an include of it."""

    def is_good(data: bytes) -> bool:
        try:
            with ConfigFolder(root) as folder:
                folder.use_content(file, data)
                return not read_file(test_file, folder).problems
        except (ConfigError, OSError):
            return False

    return None if file.suffix == ".jsonnet" else _first(file, is_good)


def last_commit(file: Path) -> Commit | None:
    return _first(file, lambda _: True)


def _first(file: Path, is_good: Callable[[bytes], bool]) -> Commit | None:
    try:
        deadline = time.monotonic() + TIME_LIMIT_SECONDS
        for commit, data in _versions(file.absolute(), deadline):
            if is_good(data):
                return commit
            if time.monotonic() > deadline:
                break
    except (OSError, subprocess.SubprocessError, ValueError):
        return None  # no git, no checkout, one of another user, or too slow
    return None


def _versions(file: Path, deadline: float) -> Iterator[tuple[Commit, bytes]]:
    """Yield the commits that changed a file, newest first, with its content."""
    folder = next(parent for parent in file.parents if parent.is_dir()).resolve()
    path = file.relative_to(next(parent for parent in file.parents if parent.is_dir())).as_posix()
    layout = SEPARATOR.join(("%H", "%an", "%as", "%s"))
    listed = ("rev-list", f"--max-count={MAX_COMMITS}", "--no-commit-header", f"--format={layout}", "HEAD", "--", path)
    for line in _git(folder, deadline, *listed).decode(errors="replace").splitlines():
        name, author, day, subject = line.split(SEPARATOR, 3)
        try:
            size = int(_git(folder, deadline, "cat-file", "-s", f"{name}:./{path}"))
            data = _git(folder, deadline, "cat-file", "blob", f"{name}:./{path}") if size <= MAX_BYTES else None
        except subprocess.CalledProcessError:
            continue  # the commit that deleted it
        if data is not None:
            yield Commit(name, _text(author), _text(day), _text(subject)), data


def _git(folder: Path, deadline: float, *arguments: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "--no-pager", "--literal-pathspecs", *OPTIONS, "-C", str(folder), *arguments],
        env={**environment, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=max(0.1, deadline - time.monotonic()),
    )
    return done.stdout


def _text(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:MAX_SUBJECT]


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


def message_about(changes: Sequence[Change], recipients: Sequence[str], mail: MailSettings, mark: str) -> Message:
    """Return the message about changes of the same kind, of tests of one owner. `mark` makes its key unique."""
    works_again = changes[0].works_again
    only = changes[0] if len(changes) == 1 else None
    page = _page(only.test.test if only else "", mail)
    notice = Notice(
        headline=_headline(changes),
        sentences=_sentences(only) if only else (),
        items=_facts(only) if only else tuple(_row(change, mail) for change in changes),
        buttons=(Fact("dashboard", "Open the test" if only else "Open the dashboard", page),),
        test=only.test.test if only else "",
        owner=changes[0].test.owner,
        is_good=works_again,
    )
    stated = [(change.test.test, change.new) for change in changes]
    digest = short_hash(repr((stated, tuple(recipients))))
    sender = (only.test.sender if only else "") or mail.sender
    key = f"watch-{mark}-{'mended' if works_again else 'broken'}-{digest}"
    return compose_notice(key, MessageKind.FILE, notice, recipients, sender)


def _headline(changes: Sequence[Change]) -> str:
    first = changes[0]
    if len(changes) > 1:
        what = "work again" if first.works_again else "are not running as defined"
        return f"{len(changes)} tests of {first.test.owner} {what}"
    if first.works_again:
        was = " and ".join(map(short_name, first.test.reported))
        return f"{first.test.test} works again (was: {was})"
    return HEADLINES[first.new[0]].format(first.test.test)


def _sentences(change: Change) -> tuple[str, ...]:
    test = change.test
    if change.works_again:
        return ("Its file, its DAG and its schedule are valid. The next run starts as scheduled.",)
    advice = (ADVICE[name].format(test.test) for name in change.new if name in ADVICE)
    return (*(test.problems[name] for name in change.new), *advice)


def _facts(change: Change) -> tuple[Fact, ...]:
    test = change.test
    facts = {
        "owner": test.owner,
        "file": test.file,
        "schedule": test.schedule or "none",
        "last good commit": change.last_good,
        "DAG file": test.dag_file,
    }
    return tuple(Fact(name, value) for name, value in facts.items() if value)


def _row(change: Change, mail: MailSettings) -> Fact:
    if change.works_again:
        return Fact(change.test.test, "works again", _page(change.test.test, mail))
    what = "; ".join(change.test.problems[name] for name in change.new)
    good = f"; last good commit: {change.last_good}" if change.last_good else ""
    return Fact(change.test.test, f"{what}{good}", _page(change.test.test, mail))


def _page(test: str, mail: MailSettings) -> str:
    if not mail.dashboard_url:
        return ""
    return page_of_test(mail.dashboard_url, test) if test else f"{mail.dashboard_url}/"


log = logger_of(__name__)

SETTLE_SECONDS = 5.0
"""A file may be read while it is being written: a new problem counts if it is still there after this time."""
ENDED = frozenset({VANISHED, RENAMED})
"""Problems of a test that is gone: an acknowledgement ends them."""


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
    quiet = {name for name, row in warehouse.quarantines.newest().items() if row.holds(now)}
    quiet |= {name for name, test in tests.items() if test.is_quiet(now)}
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
    for change in changes:
        name = f"{DEFINITION}{change.test.test}"
        if change.works_again:
            warehouse.incidents.close(name, message)
        else:
            reasons = sorted({*change.test.reported, *change.new})
            warehouse.incidents.report(name, message, fingerprint=" ".join(reasons), reasons=reasons)


def _kept(test: KnownTest, changes: Sequence[Change], *, is_first: bool) -> KnownTest:
    change = next((one for one in changes if one.test.test == test.test), None)
    reported = test.reported if change is None else (() if change.works_again else (*test.reported, *change.new))
    ignored = tuple(test.problems) if is_first else tuple(name for name in test.ignored if name in test.problems)
    return replace(test, reported=reported, ignored=ignored)
