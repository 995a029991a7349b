"""Import errors of DAG files, as Airflow's DAG processor reports them to the listener."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ml_metrics.alerts import forget_import_errors, import_errors, note_import_error, read_import_errors
from ml_metrics.core.settings import Settings
from ml_metrics.store import storage
from unit.alerts.watching.observed import Observed

OURS = "from ml_metrics import accelerator_test\nimport no_such_module\n"


def trace(file: Path) -> str:
    return f'Traceback:\n  File "{file}", line 2, in <module>\nModuleNotFoundError: No module named no_such_module\n'


@pytest.fixture(autouse=True)
def a_new_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_errors, "_written", {})
    monkeypatch.setattr(import_errors, "_can_be_imported", lambda file: "no_such" not in Path(file).read_text())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dags" / "mine.py"
    path.parent.mkdir()
    path.write_text(OURS)
    return path


def lasting(after: timedelta = timedelta()) -> list[str]:
    errors, mended = read_import_errors(Settings.load(), datetime.now(UTC) + after)
    forget_import_errors(Settings.load(), mended)
    return [f"{Path(error.file).name}:{error.line}: {error.last_line}" for error in errors]


def test_an_error_lasts_until_the_file_can_be_imported(file: Path) -> None:
    note_import_error(str(file), trace(file))
    expected = ["mine.py:2: ModuleNotFoundError: No module named no_such_module"]
    assert lasting() == expected
    assert lasting(timedelta(days=3)) == expected, "a DAG processor that is down mends nothing"
    file.write_text(f"{OURS}# changed, and still broken\n")
    assert lasting() == expected
    file.write_text("from ml_metrics import accelerator_test\n")
    assert lasting() == []
    file.write_text(OURS)
    assert lasting() == [], "it was forgotten until Airflow reports it again"


def test_a_trace_that_does_not_name_the_file_has_no_line(file: Path) -> None:
    note_import_error(str(file), "ModuleNotFoundError: No module named no_such_module\n")
    note_import_error(str(file.with_name("other.py")), f"ml_metrics\n{trace(file)}12 tests\n")
    assert "mine.py:None: ModuleNotFoundError: No module named no_such_module" in lasting()


def test_an_error_of_another_module_is_mended_without_a_change_of_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_import_error(str(file), trace(file))
    monkeypatch.setattr(import_errors, "_can_be_imported", lambda _: True)
    assert len(lasting()) == 1
    assert lasting(timedelta(minutes=21)) == []


def test_the_same_error_is_written_once_in_five_minutes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(storage.Folder, "write", lambda _, name, __: written.append(name))
    for _ in range(10):
        note_import_error(str(file), trace(file))
    assert len(written) == 1
    note_import_error(str(file), f"{trace(file)}another\n")
    assert len(written) == 2


def test_the_dags_of_somebody_else_are_left_alone(file: Path) -> None:
    file.write_text("import no_such_module\n")
    note_import_error(str(file), trace(file))
    assert lasting() == []


def test_the_listener_never_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.Folder, "write", full)
    note_import_error(str(tmp_path / "gone-ml_metrics.py"), "ml_metrics \ud800")
    note_import_error("", "")
    note_import_error("a\0b", "ml_metrics")


def test_damaged_documents_are_removed(file: Path) -> None:
    note_import_error(str(file), trace(file))
    settings = Settings.load()
    (document,) = storage.list_files(storage.join(settings.storage_root, "_ml_metrics", import_errors.FOLDER))
    Path(document.path).write_text("{torn")
    assert lasting() == []
    assert storage.list_files(settings.storage_root) == []


def test_the_tests_of_the_dag_file_are_reported_and_mended(observed: Observed, file: Path) -> None:
    observed.write("nightly")
    observed.passes()
    tests = file.with_name("ml_tests.py")
    tests.write_text(OURS)
    for path in (tests, file):
        note_import_error(str(path), trace(path))
    observed.import_errors, _ = read_import_errors(Settings.load(), datetime.now(UTC))
    observed.passes()
    assert sorted(observed.subjects) == [
        "mine.py does not run: Airflow cannot import its DAG file",
        "nightly does not run: Airflow cannot import its DAG file",
    ]
    assert {message.recipients for message in observed.messages} == {("v@example.com",), ("duty@example.com",)}
    observed.passes()
    assert observed.messages == []
    observed.import_errors = []
    observed.passes()
    assert sorted(observed.subjects) == [
        "mine.py works again (was: Airflow cannot import its DAG file)",
        "nightly works again (was: Airflow cannot import its DAG file)",
    ]
    assert set(observed.warehouse.known_tests.read().tests) == {"nightly"}
