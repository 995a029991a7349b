"""SECURITY.md promises what tests hold, and names every test file of the hostile campaign."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from syntax import syntax_of

PROJECT = Path(__file__).parents[3]
TEXT = (PROJECT / "SECURITY.md").read_text()
PROMISES = TEXT.partition("<!-- promises: checked by tests/unit/project/test_security_doc.py -->")[2].partition(
    "\n## "
)[0]
ROW = re.compile(r"^- (?P<promise>.+?):\s+(?P<tests>`(?:tests|campaigns|packages)/.+?`)\.$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(?P<file>(?:tests|campaigns|packages)/[^`:]+\.py)(?:::(?P<test>\w+))?`")
ROWS = [row.groupdict() for row in ROW.finditer(PROMISES)]
CAMPAIGN = sorted((PROJECT / "campaigns" / "hostile").rglob("test_*.py"))


@cache
def functions_of(file: Path) -> frozenset[str]:
    """Return the names of the tests in a file."""
    tree = syntax_of(file.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return frozenset(one.name for one in functions if one.name.startswith("test_"))


def test_every_promise_names_tests_that_exist() -> None:
    assert len(ROWS) == len(re.findall(r"^- ", PROMISES, re.MULTILINE)), "a promise without a test"
    for row in ROWS:
        named = list(NAMED.finditer(row["tests"]))
        assert named, f"a promise without a test: {row['promise']}"
        for one in named:
            file = PROJECT / one["file"]
            assert file.is_file(), one["file"]
            assert one["test"], f"{one['file']}: which test?"
            assert one["test"] in functions_of(file), one[0]


def test_there_are_promises_about_all_four_people() -> None:
    sections = re.findall(r"^### (.+)$", PROMISES, re.MULTILINE)
    assert [section.split()[1] for section in sections[:4]] == ["workload", "author", "viewer", "user"]
    assert len(ROWS) > 20


def test_every_file_of_the_campaign_is_named() -> None:
    assert [file.name for file in CAMPAIGN if f"`{file.relative_to(PROJECT)}" not in TEXT] == []


def test_the_document_says_where_to_report() -> None:
    assert re.search(r"^## How to report a weakness$", TEXT, re.MULTILINE)
