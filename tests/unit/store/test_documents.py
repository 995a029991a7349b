"""Documents are believed only if this deployment wrote them, for this place, and as they are."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import ConfigError
from ml_metrics.core.errors import FileMissingError, LaterVersionError, StorageError, UnreadableInputError
from ml_metrics.core.settings import Settings
from ml_metrics.store import documents as module
from ml_metrics.store.documents import FORMAT, MAX_BYTES, SIGNATURE, VERSION, Documents, documents_keys, signing_key

KEY = "AIRFLOW__ML_METRICS__DOCUMENTS_KEY"
CONTENT = {"outcome": "pass", "values": [1.5, None, {"é": "\n"}]}
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    return Documents.of_run(str(tmp_path / "t" / "k"), root=str(tmp_path))


def test_a_document_is_json_with_its_fields_and_a_signature(documents: Documents) -> None:
    documents.write("verdicts", CONTENT)
    from pathlib import Path

    plain = json.loads(Path(documents.path_of("verdicts")).read_text())
    assert {key: plain[key] for key in CONTENT} == CONTENT
    assert (next(iter(plain)), list(plain)[-1], plain[VERSION]) == (VERSION, SIGNATURE, FORMAT)
    assert documents.read("verdicts") == CONTENT


@given(content=st.dictionaries(st.text(), JSON))
def test_any_content_is_read_as_written(content: dict[str, object]) -> None:
    documents = Documents.of_run("memory://bucket/runs/t/k")
    documents.write("metrics", content)
    assert documents.read("metrics") == {
        key: value for key, value in content.items() if key not in {VERSION, SIGNATURE}
    }


@given(position=st.integers(0, 10_000), letter=st.integers(0, 255))
def test_a_document_that_was_changed_anywhere_is_not_believed(position: int, letter: int) -> None:
    documents = Documents.of_run("memory://bucket/runs/t/changed")
    data = bytearray(documents.encoded("verdicts", CONTENT))
    position %= len(data)
    if data[position] == letter:
        letter ^= 1
    data[position] = letter
    with pytest.raises(UnreadableInputError, match="was not written by this deployment"):
        documents.decoded("verdicts", bytes(data), "x")


@given(cut=st.integers(1, 400), added=st.binary(max_size=20))
def test_a_part_of_a_document_or_more_than_one_is_not_believed(cut: int, added: bytes) -> None:
    documents = Documents.of_run("memory://bucket/runs/t/part")
    data = documents.encoded("verdicts", CONTENT)
    for wrong in (data[:-cut], data[cut:], data + added + b" ", added + b" " + data, data + data):
        with pytest.raises(UnreadableInputError):
            documents.decoded("verdicts", wrong, "x")


def test_a_document_of_another_place_is_not_believed(tmp_path: Path) -> None:
    root = str(tmp_path)
    own = Documents.of_run(f"{root}/t/k", root=root)
    data = own.encoded("verdicts", CONTENT)
    others = {
        "another run": (Documents.of_run(f"{root}/t/other", root=root), "verdicts"),
        "another test": (Documents.of_run(f"{root}/other/k", root=root), "verdicts"),
        "another name": (own, "metrics"),
        "another folder": (Documents.of_run(f"{root}/t/k", "messages", root=root), "verdicts"),
        "the deployment's own": (Documents.of_deployment(root, "messages", "local"), "verdicts"),
    }
    for documents, name in others.values():
        with pytest.raises(UnreadableInputError, match="was not written by this deployment"):
            documents.decoded(name, data, "x")
    assert own.decoded("verdicts", data, "x") == CONTENT
    moved = Documents.of_run("/elsewhere/t/k")
    assert moved.decoded("verdicts", data, "x") == CONTENT, "a storage root may move"


def test_keys_are_changed_without_losing_older_documents(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "the-old-key-of-all", "the-new-key-of-all"
    monkeypatch.setenv(KEY, old)
    documents.write("verdicts", CONTENT)
    monkeypatch.setenv(KEY, f"{new}, {old}")
    assert documents.read("verdicts") == CONTENT
    documents.write("metrics", CONTENT)
    monkeypatch.setenv(KEY, new)
    assert documents.read("metrics") == CONTENT
    with pytest.raises(UnreadableInputError, match="was not written by this deployment"):
        documents.read("verdicts")


def test_a_document_of_a_later_version_is_neither_read_nor_absent_nor_replaced(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr("ml_metrics.store.documents.FORMAT", FORMAT + 1)
        documents.write("verdicts", CONTENT)
        assert documents.read("verdicts") == CONTENT
    with pytest.raises(
        LaterVersionError, match=r"verdicts\.json: is a document of version 2, .* reads up to version 1"
    ):
        documents.read("verdicts")
    assert documents.exists("verdicts")
    assert not documents.create("verdicts", {"mine": 1})


def test_a_document_from_before_the_versions_is_read(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr("ml_metrics.store.documents.VERSION", "another_key")
        documents.write("verdicts", CONTENT)
    assert documents.read("verdicts") == {"another_key": FORMAT, **CONTENT}


@pytest.mark.parametrize("version", [0, -1, 1.0, "1", None, True, [1]])
def test_what_is_no_version_is_not_read(documents: Documents, version: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_metrics.store.documents.FORMAT", version)
    data = documents.encoded("verdicts", CONTENT)
    monkeypatch.undo()
    with pytest.raises(UnreadableInputError):
        documents.decoded("verdicts", data, "x")


def test_a_planted_document_is_absent_and_replaced(documents: Documents) -> None:
    documents.place.write(f"{documents.below}/told.json", json.dumps(CONTENT).encode())
    assert not documents.exists("told")
    assert documents.create("told", {"mine": 1})
    assert not documents.create("told", {"mine": 2})
    assert documents.read("told") == {"mine": 1}
    documents.remove("told")
    with pytest.raises(FileMissingError):
        documents.read("told")


def test_a_document_without_end_is_not_read_into_memory(documents: Documents) -> None:
    from pathlib import Path

    documents.write("metrics", CONTENT)
    with Path(documents.path_of("metrics")).open("r+b") as file:
        file.truncate(8 << 40)  # sparse
    with pytest.raises(UnreadableInputError, match=f"has more than {MAX_BYTES:,} bytes"):
        documents.read("metrics")


def test_without_a_key_nothing_is_written_or_believed(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    documents.write("verdicts", CONTENT)
    monkeypatch.setenv(KEY, "short")
    with pytest.raises(StorageError, match="cannot be signed"):
        documents.write("verdicts", {})
    with pytest.raises(UnreadableInputError, match="cannot be checked") as error:
        documents.read("verdicts")
    assert "short;" not in str(error.value)


def test_unsigned_documents_are_believed_only_on_demand(documents: Documents) -> None:
    from dataclasses import replace

    documents.place.write(f"{documents.below}/run.json", b'{"test": "t"}')
    assert replace(documents, believe_unsigned=True).read("run") == {"test": "t"}
    documents.place.write(f"{documents.below}/run.json", b"[" * 200_000)
    with pytest.raises(UnreadableInputError, match="is not JSON: RecursionError"):
        replace(documents, believe_unsigned=True).read("run")


FERNET = "cryptography_not_included_for_non_prod_use="


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "airflow" / "ml_metrics" / "documents.key"


def test_without_any_setting_a_file_is_made_that_only_its_user_can_read(file: Path) -> None:
    before = os.umask(0)
    try:
        assert documents_keys() == ()
        assert not file.exists(), "who reads makes no key"
        key = signing_key()
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    module._read.cache_clear()
    assert documents_keys() == (key,)
    assert list(file.parent.glob(".*")) == []


def test_of_many_processes_that_make_the_file_all_get_the_same_key(file: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: signing_key(), range(32)))
    assert keys == set(documents_keys())
    assert file.exists()


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (lambda file: file.chmod(0o640), "other users may read it"),
        (lambda file: file.write_text("x"), "is damaged"),
        (lambda file: (file.rename(f"{file}.real"), file.symlink_to(f"{file}.real")), "cannot be read"),
    ],
)
def test_a_file_that_somebody_else_may_know_is_refused(file: Path, break_it: object, problem: str) -> None:
    signing_key()
    break_it(file)  # type: ignore[operator]
    module._read.cache_clear()
    with pytest.raises(ConfigError, match=problem):
        documents_keys()


def test_the_key_is_derived_from_airflows_fernet_key(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", FERNET)
    (of_variable,) = documents_keys()
    monkeypatch.delenv("AIRFLOW__CORE__FERNET_KEY")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY_CMD", f"echo {FERNET}")
    assert documents_keys() == (of_variable,)
    monkeypatch.delenv("AIRFLOW__CORE__FERNET_KEY_CMD")
    file.parents[1].mkdir(parents=True, exist_ok=True)
    (file.parents[1] / "airflow.cfg").write_text(f"[core]\nfernet_key = {FERNET},older\n")
    assert documents_keys()[0] == of_variable
    assert len(documents_keys()) == 2
    assert FERNET.encode() not in of_variable
    assert not file.exists()


def test_the_setting_comes_first_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", FERNET)
    of_fernet = documents_keys()
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", "a-key-of-documents")
    assert documents_keys() != of_fernet
    assert "a-key-of-documents" not in repr(Settings.load())


def test_a_fernet_key_that_only_airflow_can_read_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY_SECRET", "fernet")
    with pytest.raises(ConfigError, match="documents_key: must be set"):
        documents_keys()
