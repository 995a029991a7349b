"""Finding one test among many, with and without a hint."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from ml_metrics.config import load as loading
from ml_metrics.config.load import load_test
from ml_metrics.errors import ConfigError
from ml_metrics.settings import airflow_home

if TYPE_CHECKING:
    from pathlib import Path

TEST = "{framework: tf, model: %s, mode: func, image: i, command: [c]}"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    names: list[str] = []
    original = loading.read_file

    def noted(path: Path, shelf: object) -> object:
        names.append(path.name)
        return original(path, shelf)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "read_file", noted)
    return names


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    folder.mkdir()
    for number in range(50):
        (folder / f"{number:02}.yaml").write_text(TEST % f"m{49 - number}", encoding="utf-8")
    return folder


def test_the_second_lookup_reads_one_file(root: Path, read: list[str]) -> None:
    assert load_test(root, "tf-m7-func-cpu").model == "m7"
    read.clear()
    assert load_test(root, "tf-m7-func-cpu").model == "m7"
    assert read == ["42.yaml"]


def test_a_file_named_like_the_test_is_read_first(root: Path, read: list[str]) -> None:
    (root / "special-func.yaml").write_text(TEST % "special", encoding="utf-8")
    assert load_test(root, "tf-special-func-cpu").model == "special"
    assert read == ["special-func.yaml"]


def test_a_test_that_moved_is_found_again(root: Path) -> None:
    load_test(root, "tf-m7-func-cpu")
    (root / "42.yaml").rename(root / "elsewhere.yaml")
    assert load_test(root, "tf-m7-func-cpu").source == str(root / "elsewhere.yaml")
    (root / "elsewhere.yaml").write_text(TEST % "other", encoding="utf-8")
    with pytest.raises(ConfigError, match="no test 'tf-m7-func-cpu'"):
        load_test(root, "tf-m7-func-cpu")


def test_hints_of_two_folders_are_separate(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(root, other)
    (other / "42.yaml").rename(other / "99.yaml")
    load_test(root, "tf-m7-func-cpu")
    assert load_test(other, "tf-m7-func-cpu").source == str(other / "99.yaml")


def test_a_damaged_hint_is_ignored(root: Path) -> None:
    load_test(root, "tf-m7-func-cpu")
    (hint,) = (airflow_home() / "ml_metrics" / "locations").iterdir()
    for content in (b"", b"\0", b"\xff\xfe", b"../../../etc/passwd", b"/etc/passwd", b"00.yaml"):
        hint.write_bytes(content)
        assert load_test(root, "tf-m7-func-cpu").model == "m7"


def test_an_unwritable_home_is_ignored(root: Path) -> None:
    home = airflow_home()
    home.mkdir(parents=True)
    (home / "ml_metrics").write_text("a file where a folder should be", encoding="utf-8")
    assert load_test(root, "tf-m7-func-cpu").model == "m7"


def test_an_invalid_test_reports_its_problems(root: Path) -> None:
    (root / "broken.yaml").write_text(TEST % "b" + "\nx: 1", encoding="utf-8")
    (root / "wrong.yaml").write_text((TEST % "w").replace("image", "imgae"), encoding="utf-8")
    with pytest.raises(ConfigError, match="did you mean 'image'"):
        load_test(root, "tf-w-func-cpu")
