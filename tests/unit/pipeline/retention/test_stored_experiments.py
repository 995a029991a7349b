"""Journals of comparisons and searches: which are kept, and the removal of the others on a disk and in a bucket."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import Run
from ml_metrics.pipeline import Ages, Needed, StoredExperiments
from ml_metrics.pipeline.experiments import COMPARE, EXPERIMENTS_FOLDER, experiments, open_journal, remember
from ml_metrics.pipeline.experiments.own_searches import OwnSearch
from ml_metrics.store import storage
from ml_metrics.store.documents import DOCUMENTS, Documents
from ml_metrics.warehouse import open_warehouse
from unit.pipeline.retention.stored_journals import COMPARED, SEARCHED, store_journal

NOW = datetime.now(UTC)
AGES = Ages(timedelta(days=30), timedelta(days=180))


@pytest.fixture(params=["disk", "bucket"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "runs") if request.param == "disk" else str(request.getfixturevalue("bucket"))


def pruned(root: str, **options: Any) -> set[str]:
    needed = options.pop("needed", Needed({}))
    return {run.key for run, _ in StoredExperiments(root, "local").prune(AGES, needed, **options)}


def names(root: str) -> set[str]:
    return {file.name for file in storage.list_files(root)}


def test_they_are_kept_like_runs_that_ended_as_they_did(root: str) -> None:
    kept = [
        store_journal(root, "young", 29),
        store_journal(root, "worse", 179, failed=True),
        store_journal(root, "killed", 179, failed=None),
    ]
    old = [
        store_journal(root, "old", 31),
        store_journal(root, "worse long ago", 181, failed=True),
        store_journal(root, "killed long ago", 181, failed=None),
        store_journal(root, "search", 31, SEARCHED),
    ]
    found = list(StoredExperiments(root, "local").choices(AGES, Needed({})))
    assert {choice.kept for choice, _ in found} == {"", "for 30 days", "for 180 days", "not finished"}
    assert {choice.run.kind for choice, _ in found} == {"comparison", "search"}
    assert pruned(root) == {one.key for one in old}
    assert {one.key for one in experiments(root)} == {one.key for one in kept}
    assert len(names(root)) == 2 * len(kept), "a journal and a marker of each"
    assert pruned(root) == set()


def test_one_that_has_not_ended_is_kept_for_90_days(tmp_path: Path) -> None:
    store_journal(str(tmp_path), "in progress", 89, failed=None)
    gone = store_journal(str(tmp_path), "lost", 91, failed=None)
    found = StoredExperiments(str(tmp_path), "local").prune(Ages(AGES.passed, timedelta(days=1)), Needed({}))
    assert [run.key for run, _ in found] == [gone.key]


def test_without_an_age_all_are_kept(tmp_path: Path) -> None:
    store_journal(str(tmp_path), "old", 999)
    assert list(StoredExperiments(str(tmp_path), "local").prune(Ages(), Needed({}))) == []


def test_those_of_an_open_incident_are_kept(tmp_path: Path) -> None:
    root = str(tmp_path / "runs")
    before = store_journal(root, "before", 400)
    store_journal(root, "since", 300)
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as warehouse:
        at = NOW - timedelta(days=350)
        warehouse.incidents.report("t", "key", fingerprint="job", reasons=["job_status"], at=at)
        needed = Needed.of(root, "local", warehouse, NOW)
    assert pruned(root, needed=needed) == {before.key}


def test_only_those_of_the_tests_that_are_named(tmp_path: Path) -> None:
    store_journal(str(tmp_path), "of t", 99)
    gone = store_journal(str(tmp_path), "of u", 99, SEARCHED)
    assert pruned(str(tmp_path), tests=["u"]) == {gone.key}


def test_what_a_search_has_recorded_about_itself_goes_with_it(root: str) -> None:
    """A later search of the same test has replaced one of both records."""
    for run_id, topics in (("regression__1", ("u", "versions-1")), ("regression__2", ("u",))):
        remember(root, OwnSearch(run_id, {}, topics, ""))
        store_journal(root, run_id, 99 if run_id == "regression__1" else 1, SEARCHED)
    assert len(pruned(root)) == 1
    assert Documents.of_deployment(root, "searches").names() == ["u"]
    assert Documents.of_deployment(root, "searches").read("u") == {"run_id": "regression__2"}


def test_journals_of_others_and_damaged_ones_are_kept(root: str) -> None:
    journal = store_journal(root, "old", 99)
    forged = Run(COMPARE, COMPARE, "forged", "local").key
    data = storage.read_bytes(f"{root}/{DOCUMENTS}/{EXPERIMENTS_FOLDER}/{journal.key}.json")
    storage.write_bytes(f"{root}/{DOCUMENTS}/{EXPERIMENTS_FOLDER}/{forged}.json", data)
    storage.write_bytes(f"{root}/{DOCUMENTS}/{EXPERIMENTS_FOLDER}/notes.json", b"{}")
    of_no_time, damaged, others = (Run(COMPARE, COMPARE, name, "local").key for name in ("of no time", "damaged", "u"))
    documents = Documents.of_deployment(root, EXPERIMENTS_FOLDER)
    old = documents.read(journal.key)
    documents.write(of_no_time, {"question": COMPARED.question(), "trials": []})
    documents.write(damaged, {**old, "question": "none"})
    documents.write(others, {**old, "deployment": "other"})
    found = {choice.run.key: choice.kept for choice, _ in StoredExperiments(root, "local").choices(AGES, Needed({}))}
    assert found.pop(journal.key) == ""
    assert found[of_no_time] == "its end is unknown"
    assert found[damaged].startswith("it cannot be read: ValueError")
    assert found[others] == "it is of deployment 'other'"
    assert "was not written by this deployment" in found[forged]
    assert pruned(root) == {journal.key}
    assert {name.rpartition("/")[2] for name in names(root)} == {"notes.json", *(f"{key}.json" for key in found)}


def test_what_cannot_be_removed_is_a_problem_of_one_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = sorted(store_journal(str(tmp_path), name, 99).key for name in ("one", "another"))

    def remove(folder: storage.Folder, name: str, own: Callable[..., None] = storage.Folder.remove) -> None:
        if name.endswith(f"{EXPERIMENTS_FOLDER}/{keys[0]}.json"):
            raise StorageError(f"{name}: cannot be removed: Permission denied")
        own(folder, name)

    monkeypatch.setattr(storage.Folder, "remove", remove)
    (first, left), (second, removed) = StoredExperiments(str(tmp_path), "local").prune(AGES, Needed({}))
    assert [first.key, second.key] == keys
    assert (left.files, removed.files, removed.problem) == (0, 1, "")
    assert "cannot be removed: Permission denied" in left.problem


def test_one_that_a_task_writes_while_a_pass_looks_at_it_is_kept(tmp_path: Path) -> None:
    root = str(tmp_path)
    journal = store_journal(root, "cleared", 99)

    def is_late() -> bool:
        journal.write()
        return False

    assert pruned(root, is_late=is_late) == set()
    assert open_journal(root, journal.key).trials == journal.trials


class DiedError(BaseException):
    """The process was killed."""


def test_a_process_that_dies_leaves_nothing_that_the_next_does_not_find(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for survived in range(3):
        remember(root, OwnSearch("regression__1", {}, ("u", "versions-1"), ""))
        journal = store_journal(root, "regression__1", 99, SEARCHED)
        left = survived

        def remove(folder: storage.Folder, name: str, own: Callable[..., None] = storage.Folder.remove) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise DiedError
            own(folder, name)

        with monkeypatch.context() as patched:
            patched.setattr(storage.Folder, "remove", remove)
            with pytest.raises(DiedError):
                pruned(root)
        assert pruned(root) == {journal.key}
        assert names(root) == set()


def test_a_pass_that_is_late_stops(tmp_path: Path) -> None:
    store_journal(str(tmp_path), "old", 99)
    assert pruned(str(tmp_path), is_late=lambda: True) == set()
