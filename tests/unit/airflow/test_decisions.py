"""Decisions have one format, and the index lists all of them."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

DECISIONS = Path(__file__).parents[3] / "docs" / "decisions"
FILES = sorted(DECISIONS.glob("[0-9]*.md"))
FORMAT = re.compile(
    r"# (?P<number>\d{4}) (?P<title>\S.*)\n\n"
    r"Date: (?P<date>\d{4}-\d{2}-\d{2})\n\nState: (?P<state>accepted|superseded by \d{4})\n\n"
    r"## Context\n\n\S[^#]*\n\n## Decision\n\n\S[^#]*\n\n## Consequences\n\n\S[^#]*\n"
)


def test_there_are_no_other_files() -> None:
    assert {path.name for path in DECISIONS.iterdir()} == {"README.md", *(path.name for path in FILES)}
    numbers = [path.name[:4] for path in FILES]
    assert len(numbers) == len(set(numbers))


def test_decisions_have_the_format_and_are_in_the_index() -> None:
    index = (DECISIONS / "README.md").read_text()
    for path in FILES:
        decision = FORMAT.fullmatch(path.read_text())
        assert decision, f"{path.name}: see any other decision for the format"
        number, title, date, state = decision.group("number", "title", "date", "state")
        assert path.name.startswith(f"{number}-")
        assert f"| {number} | [{title}]({path.name}) | {date} | {state} |" in index
        if state != "accepted":
            assert list(DECISIONS.glob(f"{state.removeprefix('superseded by ')}-*.md")), path.name


def test_the_index_lists_each_decision_once_by_subject_in_order() -> None:
    subjects = (DECISIONS / "README.md").read_text().split("\n## ")
    links = [re.findall(r"\]\((\S+\.md)\)", subject) for subject in subjects]
    assert links == [sorted(of_subject) for of_subject in links]
    assert sorted(chain.from_iterable(links)) == [path.name for path in FILES]


def test_links_between_decisions_lead_to_files() -> None:
    links = {(path.name, link) for path in FILES for link in re.findall(r"\]\(([^)#:]+\.md)\)", path.read_text())}
    assert links
    assert sorted(one for one in links if not (DECISIONS / one[1]).is_file()) == []
