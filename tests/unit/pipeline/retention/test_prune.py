"""Run folders on a disk and in a bucket, and their removal."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.pipeline import Ages, Needed, Remover, StoredRuns, prune
from ml_metrics.store import storage
from ml_metrics.store.confined import NO_TIME, Usage
from ml_metrics.store.markers import Markers
from ml_metrics.store.run_folder import RunFolder
from unit.pipeline.retention.run_folders import store, stored_keys

NOW = datetime.now(UTC)
AGES = Ages(timedelta(days=30), timedelta(days=180))


@pytest.fixture(params=["disk", "bucket"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "runs") if request.param == "disk" else str(request.getfixturevalue("bucket"))


def add(root: str, test: str, name: str, days: float, **options: Any) -> Run:
    return store(root, test, name, days, now=NOW, **options)


def pruned(root: str, ages: Ages = AGES, needed: Needed | None = None, **options: Any) -> dict[str, Usage]:
    stored = StoredRuns(root, "local")
    removals = prune(stored.tests(), stored, ages, needed or Needed({}), Remover(root), **options)
    return {run.run.run_id if run.run else run.key: usage for run, usage in removals}


def names(root: str) -> set[str]:
    return {file.name for file in storage.list_files(root)}


def test_what_is_too_old_is_removed_and_nothing_else(root: str) -> None:
    add(root, "t", "newest", 1)
    kept = [add(root, "t", "young", 29), add(root, "t", "failed", 100, passed=False), add(root, "u", "only", 900)]
    add(root, "t", "old", 31, files=3)
    add(root, "t", "failed long ago", 200, passed=False)
    before = names(root)
    found = pruned(root)
    assert {name: (usage.files, usage.problem) for name, usage in found.items()} == {
        "old": (6, ""), "failed long ago": (4, "")
    }  # fmt: skip
    assert {run.key for run in kept} <= stored_keys(root, "t") | stored_keys(root, "u")
    gone = {name for name in before if name.split("/")[1] in {Run("t", "t", one, "local").key for one in found}}
    assert names(root) == before - gone
    assert pruned(root) == {}


def test_a_run_as_its_documents_state_it(root: str) -> None:
    run = add(root, "t", "good", 1, trial=True)
    stored = StoredRuns(root, "local").read("t", run.key)
    assert (stored.run, stored.is_finished, stored.has_passed, stored.is_trial, stored.problem) == (
        run, True, True, True, ""
    )  # fmt: skip
    assert stored.ended_at == NOW - timedelta(days=1)
    failed = StoredRuns(root, "local").read("t", add(root, "t", "failed", 1, passed=False).key)
    assert (failed.is_finished, failed.has_passed) == (True, False)


def test_folders_of_others_are_left_alone(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = add(root, "t", "theirs", 999, deployment="other")
    copied = Run("t", "t", "copied", "local").key
    for name in ("run", "workload", "gate"):
        data = storage.read_bytes(f"{root}/t/{other.key}/_ml_metrics/{name}.json")
        storage.write_bytes(f"{root}/t/{copied}/_ml_metrics/{name}.json", data)
    storage.write_bytes(f"{root}/t/notes/readme", b"of a user")
    storage.write_bytes(f"{root}/t/{Run('t', 't', 'empty', 'local').key}/events", b"x")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", "another key of 16 letters")
    add(root, "t", "another key", 999)
    monkeypatch.delenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY")
    before = names(root)
    assert pruned(root) == {}
    assert names(root) == before
    problems = [run.problem for run in StoredRuns(root, "local").of_test("t")]
    assert len(problems) == 4
    assert all(problems)


def test_a_run_that_is_cleared_while_a_pass_looks_at_it_is_kept(root: str) -> None:
    add(root, "t", "newest", 1)
    old = add(root, "t", "old", 100)

    def clear(runs: Collection[Run]) -> Collection[str]:
        assert list(runs) == [old]
        folder = RunFolder.of(old, root)
        folder.start_attempt()
        folder.write_workload(Workload(JobStatus.FAILURE, queued_at=NOW, attempts=2, generation=2))
        return ()

    assert pruned(root, in_progress=clear) == {}
    assert old.key in stored_keys(root, "t")


def test_a_run_that_airflow_is_running_is_kept(root: str) -> None:
    add(root, "t", "newest", 1)
    running, other = add(root, "t", "running", 100), add(root, "t", "other", 100)
    assert set(pruned(root, in_progress=lambda _: {running.key})) == {"other"}
    assert other.key not in stored_keys(root, "t")


def test_runs_whose_messages_wait_are_needed(root: str) -> None:
    old = add(root, "t", "old", 500, passed=False)
    add(root, "t", "older", 501, passed=False)
    folder = RunFolder.of(old, root).path
    Markers.of(root, "local").add("m", messages=f"{folder}/_ml_metrics/messages", document="001")
    assert set(pruned(root, needed=Needed.of(root, "local", None, NOW))) == {"older"}


class DiedError(BaseException):
    """The process was killed."""


def test_a_process_that_dies_leaves_a_run_whole_or_gone_and_the_next_continues(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(root, "t", "newest", 1)
    old = add(root, "t", "old", 100, files=2)
    whole = {name for name in names(root) if old.key in name and name.startswith("t/")}
    steps: list[str] = []
    survived = 0

    def dying(operation: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            steps.append(operation.__name__)
            if len(steps) > survived:
                raise DiedError
            return operation(*given)

        return step

    seen = set()
    for survived in range(20):  # noqa: B007  (the functions above read it)
        steps.clear()
        with monkeypatch.context() as patched:
            for name in ("rename", "remove_all", "write", "remove"):
                patched.setattr(storage.Folder, name, dying(getattr(storage.Folder, name)))
            try:
                pruned(root)
                Remover(root).resume()
                break
            except DiedError:
                pass
        left = {name for name in names(root) if old.key in name and name.startswith("t/")}
        is_whole, is_no_run = left == whole, f"t/{old.key}/_ml_metrics/run.json" not in left
        assert is_whole or is_no_run, "a folder that is a run has all its files"
        seen.add(is_whole)
    assert seen == {True, False}
    Remover(root).resume()
    assert not [name for name in names(root) if old.key in name]
    assert len(stored_keys(root, "t")) == 1


def test_a_run_that_began_again_after_a_removal_was_announced_is_kept(bucket: str) -> None:
    add(bucket, "t", "newest", 1)
    old = add(bucket, "t", "old", 100)
    stored = StoredRuns(bucket, "local").read("t", old.key)
    late = Remover(bucket, lambda: True).remove(stored)
    assert late.problem == NO_TIME
    assert StoredRuns(bucket, "local").read("t", old.key).problem == "it has no run.json"
    again = add(bucket, "t", "old", 0)
    before = {name for name in names(bucket) if name.startswith("t/")}
    assert again == old
    assert Remover(bucket).resume() == Usage()
    assert names(bucket) == before


@pytest.mark.parametrize("test", ["..", "../..", "a/b", "", "."])
def test_no_document_makes_anything_else_be_removed(bucket: str, test: str) -> None:
    add(bucket, "t", "newest", 1)
    documents = Remover(bucket)._announced
    documents.write("t", {"test": test})
    storage.write_bytes(documents.path_of("newest"), b'{"test": "t"}')
    before = names(bucket)
    assert Remover(bucket).resume() == Usage()
    assert names(bucket) == before


def test_a_link_in_place_of_a_test_or_a_run_is_not_followed(tmp_path: Path) -> None:
    root, elsewhere = str(tmp_path / "runs"), str(tmp_path / "elsewhere")
    old = add(elsewhere, "t", "old", 500, passed=False)
    add(elsewhere, "t", "newest", 1)
    (tmp_path / "runs" / "u").mkdir(parents=True)
    (tmp_path / "runs" / "t").symlink_to(tmp_path / "elsewhere" / "t")
    (tmp_path / "runs" / "u" / old.key).symlink_to(tmp_path / "elsewhere" / "t" / old.key)
    assert pruned(root) == {}
    stored = replace(StoredRuns(elsewhere, "local").read("t", old.key), test="u")
    assert Remover(root).remove(stored).files == 0, "a link that took the place of a run meanwhile goes alone"
    assert len(stored_keys(elsewhere, "t")) == 2
    assert StoredRuns(elsewhere, "local").read("t", old.key).problem == ""
