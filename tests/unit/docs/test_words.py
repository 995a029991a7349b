"""Pages that a person reads: short sentences, and one word for one thing."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pytest

PROJECT = Path(__file__).parents[3]
DOCS = PROJECT / "docs"
PAGES = {page.name: page for page in (PROJECT / "README.md", *sorted(DOCS.glob("*.md")))}
MEDIAN, LONGEST = 16, 35
NOT_PROSE = re.compile(r"^ *```.*?^ *```|<!--.*?-->|^\|.*?$|^#.*?$|^    .*?$", re.MULTILINE | re.DOTALL)
SYNONYMS = {
    "test case": "test",
    "test suite": "tests",
    "data warehouse": "warehouse",
    "run directory": "run folder",
    "false positive": "false alarm",
    "acceptance criterion": "condition",
    "success criterion": "condition",
    "threshold value": "bound",
    "time series": "series",
    "flaky run": "noise",
    "work load": "workload",
    "job folder": "run folder",
}


def sentences(text: str) -> list[int]:
    """The number of words of each sentence. A piece of code is one word, and so is the text of a link's address."""
    prose = NOT_PROSE.sub("\n", text)
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"``.+?``|`[^`]+`", "code", prose))
    parts = re.split(r"\n\s*\n|\n *(?:[-*]|\d+\.) |(?<=[.!?])[*)\"]*\s+", prose)
    counts = [sum(bool(re.search(r"\w", word)) for word in part.split()) for part in parts]
    return [count for count in counts if count]


@pytest.mark.parametrize("name", PAGES)
def test_sentences_are_short(name: str) -> None:
    counts = sentences(PAGES[name].read_text(encoding="utf-8"))
    assert median(counts) <= MEDIAN
    assert max(counts) <= LONGEST


def test_the_pages_stay_few_and_short() -> None:
    """With their tables and code: what is added replaces something."""
    texts = (page.read_text(encoding="utf-8") for page in (*PAGES.values(), PROJECT / "SECURITY.md"))
    assert sum(len(text.split()) for text in texts) <= 50_000
    nav = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    assert len(re.findall(r"\.md$", nav, re.MULTILINE)) <= 28 + 1, "and the first page, the README"


def test_each_word_of_the_glossary_is_there_once_and_in_order() -> None:
    words = re.findall(r"^\| (?!word \||---)([^|]+) \|", PAGES["glossary.md"].read_text(), re.MULTILINE)
    assert words == sorted(set(words))
    assert 30 <= len(words) <= 42


@pytest.mark.parametrize("name", PAGES)
def test_a_thing_has_one_name(name: str) -> None:
    text = " ".join(PAGES[name].read_text(encoding="utf-8").lower().split())
    assert {word: use for word, use in SYNONYMS.items() if re.search(rf"\b{word}s?\b", text)} == {}
