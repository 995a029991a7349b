"""The list of experiments: its order, what it shows, and what is left out of it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ml_metrics.judge.bisect import Search
from ml_metrics.judge.compare import Plan
from ml_metrics.pipeline.experiments import (
    BISECT,
    COMPARE,
    EXPERIMENTS_FOLDER,
    Journal,
    TestSearch,
    TrialRun,
    experiments,
    open_journal,
)
from ml_metrics.pipeline.experiments import journal as journals
from ml_metrics.pipeline.experiments.comparison import Comparison
from ml_metrics.pipeline.experiments.journal import BEGUN
from ml_metrics.store import storage
from ml_metrics.store.documents import DOCUMENTS, Documents

COMPARED = Comparison("t", "image", "app:1", "app:2", Plan(2.0, 60))
SEARCHED = TestSearch("u", "image", "loss", Search(("a", "b", "c"), 30))
TIMES = [datetime(*day, 12, tzinfo=UTC) for day in ((2025, 12, 31), (2026, 1, 1), (2026, 1, 2))]


def mark_start(root: str, key: str, began: datetime) -> None:
    Documents.of_deployment(root, BEGUN, f"{began:%Y-%m}").write(f"{began:%Y%m%dT%H%M%SZ}__{key}", {})


def key(number: int) -> str:
    return str(UUID(int=number))


def begin(root: str, number: int, monkeypatch: pytest.MonkeyPatch, experiment: Comparison | TestSearch) -> Journal:
    monkeypatch.setattr(
        journals, "datetime", SimpleNamespace(now=lambda _: TIMES[number], fromisoformat=datetime.fromisoformat)
    )
    return open_journal(root, key(number), experiment.question())


@pytest.fixture(params=["disk", "bucket"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "bucket":
        return str(request.getfixturevalue("bucket"))
    return str(tmp_path / "runs")


def test_the_newest_come_first(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(experiments(root)) == []
    begin(root, 0, monkeypatch, COMPARED)
    begin(root, 2, monkeypatch, SEARCHED)
    begun = begin(root, 1, monkeypatch, COMPARED)
    trials = [TrialRun(version, values={"loss": 1.0}) for version in ("app:1", "app:2")]
    for trial in trials:
        begun = begun.add(trial)
    found = list(experiments(root))
    assert [one.key for one in found] == [key(2), key(1), key(0)]
    assert [one.began for one in found] == TIMES[::-1]
    assert [(one.dag_id, one.test, one.kind) for one in found[:2]] == [
        (BISECT, "u", "search"),
        (COMPARE, "t", "comparison"),
    ]
    assert [one.asked for one in found[:2]] == ["loss from a to c", "app:1 and app:2"]
    ends = [(one.runs, one.most_runs, one.answer, one.failed) for one in found[:2]]
    assert ends == [(0, 30, "", False), (2, 60, "", False)]


def test_the_answer_is_that_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that goes on keeps the time at which the first one began."""
    begin(str(tmp_path), 0, monkeypatch, COMPARED)
    journal = begin(str(tmp_path), 0, monkeypatch, COMPARED)
    journal.write(COMPARED.result([]))
    (one,) = experiments(str(tmp_path))
    assert (one.began, one.failed) == (TIMES[0], True)
    assert one.document() == {
        "key": key(0),
        "began": "2025-12-31T12:00:00+00:00",
        "kind": "comparison",
        "test": "t",
        "asked": "app:1 and app:2",
        "runs": 0,
        "max_runs": 60,
        "ended": True,
        "failed": True,
        "answer": one.answer,
    }
    assert one.answer.startswith("nothing was measured")


def test_what_is_no_experiment_of_this_deployment_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers without a journal, of another time, and with names that are none; journals that somebody else wrote."""
    root = str(tmp_path)
    begin(root, 0, monkeypatch, COMPARED)
    mark_start(root, key(0), TIMES[2])  # moves it to the top of the list
    mark_start(root, key(1), TIMES[1])  # was killed before its journal was written
    mark_start(root, key(2), TIMES[2])
    Documents.of_deployment(root, EXPERIMENTS_FOLDER).write(
        key(2), {"question": COMPARED.question()}
    )  # of an earlier version
    folder = storage.Folder(root)
    for name in ("2026-01/20260101T120000Z__x", "2026-01/99999999T999999Z__" + key(0), "other/20260101T120000Z__"):
        folder.write(f"{DOCUMENTS}/{BEGUN}/{name}.json", b"{}")
    folder.write(
        f"{DOCUMENTS}/{EXPERIMENTS_FOLDER}/{key(1)}.json", b'{"question": {"test": "forged", "candidate": "x"}}'
    )
    assert [(one.key, one.began) for one in experiments(root)] == [(key(0), TIMES[0])]


def test_older_journals_are_not_read_for_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        begin(str(tmp_path), number, monkeypatch, COMPARED)
    read: list[str] = []

    def journal(_: Documents, name: str) -> dict[str, Any]:
        read.append(name)
        return {"began": TIMES[2].isoformat()}

    monkeypatch.setattr(Documents, "read", journal)
    assert [one.key for one in islice(experiments(str(tmp_path)), 1)] == [key(2)]
    assert read == [key(2)]
