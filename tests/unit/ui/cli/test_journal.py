"""The journal of a comparison or a search: it outlives its process, whatever was half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.ui.cli.measuring import journal_of

QUESTION: dict[str, Any] = {"candidates": ("a", "b", "c"), "effect": 2.0}
LINES = [{"candidate": 0, "value": 1.5}, {"candidate": 2, "value": None}, {"candidate": 1, "state": "broken"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    with journal_of(QUESTION, path) as journal:
        for line in LINES:
            journal.add(line)
    return path


def test_the_lines_are_read_again(path: Path) -> None:
    with journal_of(QUESTION, path) as journal:
        assert journal.lines == LINES


def test_every_place_where_the_writer_can_die(path: Path) -> None:
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with journal_of(QUESTION, path) as journal:
            assert journal.lines == LINES[: max(0, whole[:end].count(b"\n") - 1)]
            journal.add({"candidate": 1})
        assert json.loads(path.read_bytes().splitlines()[-1]) == {"candidate": 1}


def test_the_journal_of_another_question_is_left_alone(path: Path) -> None:
    before = path.read_bytes()
    with (
        pytest.raises(UnreadableInputError, match="another question: other values of effect; name another"),
        journal_of({**QUESTION, "effect": 5.0}, path),
    ):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["[]\n", "1\n", "not JSON\n", '{"a": 1}\n', "a note without an end"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(UnreadableInputError, match=r"journal"), journal_of(QUESTION, path):
        pass
    assert path.read_text() == content


def test_one_process_at_a_time(path: Path) -> None:
    with (
        journal_of(QUESTION, path),
        pytest.raises(UnreadableInputError, match="another process"),
        journal_of(QUESTION, path),
    ):
        pass
