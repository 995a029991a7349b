"""`ml-metrics validate`. The mistakes themselves are in tests/unit/config/test_validation.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.utils.file import might_contain_dag

from ml_metrics.ui.cli import main

CONFIGS = Path(__file__).parents[4] / "include" / "metric_configs"


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


def test_what_only_a_run_would_show_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("x_mean", "y_trimmed_mean", "own_max", "z_final")
    conditions = ", ".join(f"{name}: {{comparison: less}}" for name in names)
    text = f"""{{name: a, image: i, command: [c, $(MODELDIR)/$(OWN), "$(date)", $$(ESCAPED)], env: {{OWN: x}},
      metric_collection_config: {{metric_to_aggregation_strategy: {{"y*": [trimmed_mean]}},
        expressions: {{own_max: {{expression: z_final}}}}}},
      regression_test_config: {{metric_success_conditions: {{{conditions}}}}}}}"""
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    assert main(["validate", str(tmp_path)]) == 0
    assert capsys.readouterr().err.replace(f"warning: {tmp_path}/a.yaml: ", "").splitlines() == [
        "nothing sets the variable $(MODELDIR); did you mean 'MODEL_DIR'?",
        "x_mean: of x, only final is collected",
    ]


SILENT = "from ml_metrics import load_tests\n\nload_tests(globals())\n"


@pytest.fixture
def dag_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file in a DAGs folder that has one test, too."""
    (tmp_path / "dags" / "sub").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.yaml").write_text("{name: a, image: i, command: [c]}", encoding="utf-8")
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path / "dags"))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path / "tests"))
    return tmp_path / "dags" / "sub" / "tests.py"


@pytest.mark.parametrize(
    ("source", "warns"),
    [
        (SILENT, True),
        (f"# Airflow\n{SILENT}", True),
        (f"# DAGs of Airflow\n{SILENT}", False),
        (f"# airflow\n# ASSETS\n{SILENT}", False),
        (
            "from ml_metrics import TestDefinition, accelerator_test\nx = accelerator_test(TestDefinition(name='x'))",
            True,
        ),
        ("import ml_metrics\n", False),
        ("load_tests(1)\n", False),
    ],
)
def test_a_dag_file_that_airflow_skips_is_a_warning(
    source: str, warns: bool, dag_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dag_file.write_text(source)
    assert main(["validate"]) == 0
    warned = f'{dag_file}: Airflow skips this file, because the words "airflow" and "dag" are not both in it'
    assert (warned in capsys.readouterr().err) is warns
    assert might_contain_dag(str(dag_file), safe_mode=True) is not warns or "ml_metrics import" not in source


def test_without_airflows_safe_mode_no_file_is_skipped(
    dag_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dag_file.write_text(SILENT)
    monkeypatch.setenv("AIRFLOW__CORE__DAG_DISCOVERY_SAFE_MODE", "False")
    assert main(["validate"]) == 0
    assert capsys.readouterr().err == ""
