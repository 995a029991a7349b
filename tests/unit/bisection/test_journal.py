"""The journal of a search: it outlives its process, whatever was half-written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.bisection.journal import journal_of
from ml_metrics.bisection.search import Probe, Search, State
from ml_metrics.errors import UnreadableInputError

SEARCH = Search(("a", "b", "c"), 40)
PROBES = [Probe(0, 1.5), Probe(2, None, State.BROKEN), Probe(1, None, State.UNTESTABLE)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    with journal_of(SEARCH, path) as journal:
        for probe in PROBES:
            journal.add(probe)
    return path


def test_the_probes_are_read_again(path: Path) -> None:
    with journal_of(SEARCH, path) as journal:
        assert journal.probes == PROBES


def test_every_place_where_the_writer_can_die(path: Path) -> None:
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with journal_of(SEARCH, path) as journal:
            assert journal.probes == PROBES[: max(0, whole[:end].count(b"\n") - 1)]
            journal.add(Probe(1, 2.0))
        assert json.loads(path.read_bytes().splitlines()[-1]) == {"candidate": 1, "value": 2.0, "state": "measured"}


def test_the_journal_of_another_search_is_left_alone(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(UnreadableInputError, match="another search: candidates, effect differ"):  # noqa: SIM117
        with journal_of(Search(("a", "b"), 40, effect=5.0), path):
            pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["[]\n", "1\n", "not JSON\n", '{"a": 1}\n'])
def test_a_file_that_is_no_journal(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(UnreadableInputError, match="journal of"), journal_of(SEARCH, path):
        pass
    assert path.read_text() == content


def test_a_line_that_is_no_probe(path: Path) -> None:
    with path.open("a") as file:
        file.write('{"candidate": "x"}\n')
    with pytest.raises(UnreadableInputError, match="jsonl:5: is not a probe"), journal_of(SEARCH, path):
        pass


def test_one_process_at_a_time(path: Path) -> None:
    with (
        journal_of(SEARCH, path),
        pytest.raises(UnreadableInputError, match="another process"),
        journal_of(SEARCH, path),
    ):
        pass
