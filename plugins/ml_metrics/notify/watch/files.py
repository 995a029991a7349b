"""Compares the test files with the known tests: which no longer read, and which tests vanished or have a new name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.config.contact import contact_in
from ml_metrics.config.naming import CANNOT_BE_READ
from ml_metrics.warehouse import KnownTest
from ml_metrics.warehouse.known_definition import carried_over, known_test
from ml_metrics.warehouse.known_tests import RENAMED, UNREADABLE, VANISHED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.load import LoadedTests
    from ml_metrics.config.problems import Problem
    from ml_metrics.warehouse import KnownState

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
        """Add a problem of a test."""
        self.tests.setdefault(test.test, test)
        self.problems.setdefault(test.test, {})[problem] = sentence


def compare_files(known: Mapping[str, KnownTest], library: LoadedTests, root: Path, now: datetime) -> FileFindings:
    """Return what changed since the tests were read last."""
    found = FileFindings()
    for definition in library.tests:
        found.tests[definition.name] = carried_over(known_test(definition, now), known.get(definition.name))
    absent = [test for name, test in sorted(known.items()) if name not in found.tests and _has_test_file(test)]
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


def _has_test_file(test: KnownTest) -> bool:
    return not test.in_python and not test.file.endswith(".py")


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
