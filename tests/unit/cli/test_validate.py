"""`ml-metrics validate`. The mistakes themselves are in tests/unit/config/test_validation.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.cli import main

CONFIGS = Path(__file__).parents[3] / "include" / "metric_configs"


def test_the_shipped_files_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(CONFIGS), str(CONFIGS / "_examples")]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith(": no problems.\n")
    assert printed.err == ""


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("{name: a, image: i, command: [c]}", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("{name: b, image: i, command: [c], ownr: me}", encoding="utf-8")
    assert main(["validate", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "valid": False,
        "tests": ["a"],
        "problems": [
            {
                "file": str(tmp_path / "b.yaml"),
                "line": 1,
                "path": "ownr",
                "what": "unknown key; did you mean 'owner'?",
                "test": "b",
            }
        ],
        "warnings": [],
    }


def test_without_a_path_it_is_the_folder_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path))
    (tmp_path / "a.yaml").write_text("{name: a, image: i, command: [c]}", encoding="utf-8")
    assert main(["validate"]) == 0
    assert capsys.readouterr().out == "1 file, 1 test: no problems.\n"


def test_a_missing_path_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "/nowhere"]) == 2
    assert "there is no file or folder /nowhere" in capsys.readouterr().err
