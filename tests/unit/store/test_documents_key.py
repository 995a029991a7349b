"""Where the key of documents comes from, in the order of precedence, and that nobody else can read it."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.core.settings import Settings
from ml_metrics.store import documents
from ml_metrics.store.documents import documents_keys, signing_key

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
    documents._read.cache_clear()
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
    documents._read.cache_clear()
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
