"""Decisions that bind have a page each, of one format; all others are lines of the log."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).parents[3]
DECISIONS = PROJECT / "docs" / "decisions"
PAGES = sorted(DECISIONS.glob("[0-9]*.md"))
INDEX, LOG = DECISIONS / "README.md", DECISIONS / "log.md"
MOST_PAGES, MOST_LINES, MOST_WORDS = 60, 45, 20
FORMAT = re.compile(
    r"# (?P<number>\d{4}) (?P<title>\S.*)\n\nDate: \d{4}-\d{2}-\d{2}\n\n"
    r"## Context\n\n\S[^#]*\n\n## Decision\n\n\S[^#]*\n\n## Consequences\n\n\S(?:[^#]|\.md#)*\n"
)
LINE = re.compile(r"\| (?P<number>\d{4}) \| \S[^|]+ \| \d{4}-\d{2}-\d{2} \| (?P<decision>[A-Z`][^|]+\.) \|")
LINES = [line for line in LOG.read_text().splitlines() if line.startswith("| 0")]
PATH = re.compile(r"`([\w-]+/[\w./-]+\.(?:py|sh|md|yaml|txt)|(?:deploy|tests|packages|include)/[\w./-]+)`")
PLACES = (PROJECT, PROJECT / "plugins" / "ml_metrics", PROJECT / "packages" / "local-kube" / "src" / "local_kube")


def test_there_are_at_most_so_many_pages_and_no_other_files() -> None:
    assert {path.name for path in DECISIONS.iterdir()} == {INDEX.name, LOG.name, *(path.name for path in PAGES)}
    assert len(PAGES) <= MOST_PAGES, "make one that no longer binds a line of the log"


def test_pages_have_the_format_and_are_in_the_index() -> None:
    index = INDEX.read_text()
    for page in PAGES:
        text = page.read_text()
        decision = FORMAT.fullmatch(text)
        assert decision, f"{page.name}: see any other decision for the format"
        assert len(text.splitlines()) <= MOST_LINES, page.name
        number, title = decision.group("number", "title")
        assert page.name.startswith(f"{number}-")
        assert f"\n- {number} [{title}]({page.name})\n" in index


def test_the_index_lists_each_page_once_by_subject_in_order() -> None:
    subjects = INDEX.read_text().split("\n## ")[1:]
    links = [re.findall(r"\]\((\S+\.md)\)", subject) for subject in subjects]
    assert links == [sorted(of_subject) for of_subject in links]
    assert sorted(chain.from_iterable(links)) == [path.name for path in PAGES]


def test_the_log_has_one_line_for_each_other_decision_in_order() -> None:
    lines = [LINE.fullmatch(line) for line in LINES]
    assert [line for line, match in zip(LINES, lines, strict=True) if match is None] == []
    numbers = [match["number"] for match in lines if match]
    assert numbers == sorted(set(numbers))
    assert not set(numbers) & {path.name[:4] for path in PAGES}
    assert [match[0] for match in lines if match and len(match["decision"].split()) > MOST_WORDS] == []


def test_numbers_of_decisions_are_those_of_pages_or_of_lines_of_the_log() -> None:
    known = {path.name[:4] for path in PAGES} | {line[2:6] for line in LINES}
    for path in (*PAGES, LOG):
        numbers = set(re.findall(r"(?<!mode )(?<![\w#.-])0\d{3}(?![\w-])", path.read_text()))
        assert numbers <= known, path.name


def test_links_of_decisions_lead_to_files() -> None:
    links = {(path.name, link) for path in (*PAGES, LOG) for link in re.findall(r"\]\(([^)#:]+\.md)", path.read_text())}
    assert links
    assert sorted(one for one in links if not (DECISIONS / one[1]).is_file()) == []


def test_files_that_decisions_name_exist() -> None:
    named = {(page.name, path) for page in (*PAGES, LOG) for path in PATH.findall(page.read_text())}
    assert named
    assert sorted(one for one in named if not any((place / one[1]).exists() for place in PLACES)) == []
