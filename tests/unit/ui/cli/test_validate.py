"""`ml-metrics validate`. The mistakes themselves are in tests/unit/config/test_validation.py."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from airflow.utils.file import might_contain_dag

from ml_metrics.ui import cli
from ml_metrics.ui.cli import main
from unit.measure.collect.run_folders import write
from unit.ui.cli.shell import Shell, history_file
from unit.warehouse.records import TEST

CONFIGS = Path(__file__).parents[4] / "include" / "metric_configs"


def test_the_shipped_files_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(CONFIGS), str(CONFIGS / "_examples"), str(CONFIGS / "_faults")]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith(": no problems.\n")
    assert printed.err == ""


def test_json_is_one_document(tmp_path: Path, ml: Shell) -> None:
    (tmp_path / "a.yaml").write_text("{name: a, image: i, command: [c]}", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("{name: b, image: i, command: [c], ownr: me}", encoding="utf-8")
    assert ml.json("validate", str(tmp_path), code=1) == {
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ml: Shell
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path))
    (tmp_path / "a.yaml").write_text("{name: a, image: i, command: [c]}", encoding="utf-8")
    assert ml("validate") == "1 file, 1 test: no problems.\n"


def test_a_missing_path_is_wrong_usage(ml: Shell) -> None:
    assert "there is no file or folder /nowhere" in ml("validate", "/nowhere", code=2)


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
        "x_mean: no strategy is named `mean`; did you mean 'x_average'?",
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


CONFIG = """\
metric_collection_config:
  metric_to_aggregation_strategy: {"train/*": [median]}
  tags_to_ignore: [lr, "debug/*"]
  metrics: {"eval/loss*": {unit: nats}}
regression_test_config:
  metric_success_conditions:
    "eval/*": {comparison: less}
    "evil/*": {comparison: less}
    default: {comparison: less}
  required_metrics: ["train/*", goodput]
"""


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "a.yaml").write_text(CONFIG)
    write(tmp_path / "run", **{"eval/loss": [3, 1], "eval/accuracy": [0.5], "train/step_seconds": [0.25], "lr": [1]})
    return ["validate", str(tmp_path / "a.yaml"), "--with-run", str(tmp_path / "run")]


def test_each_pattern_with_what_it_matches(arguments: list[str], ml: Shell) -> None:
    (run,) = ml.json(*arguments, code=1)["runs"]
    assert {one["pattern"]: one["names"] for one in run["patterns"] if one["key"].endswith("conditions")} == {
        "eval/*": ["eval/accuracy_final", "eval/loss_final"],
        "evil/*": [],
        "default": ["train/step_seconds_median"],
    }
    assert {one["pattern"]: one["names"] for one in run["patterns"] if "tags_to_ignore" in one["key"]} == {
        "lr": ["lr"],
        "debug/*": [],
    }
    facts = {one["name"]: (one["unit"], one["better"], one["judged_by"]) for one in run["metrics"]}
    assert facts == {
        "eval/accuracy_final": ("", "higher", "eval/*"),
        "eval/loss_final": ("nats", "lower", "eval/*"),
        "train/step_seconds_median": ("s", "lower", "default"),
    }


def test_what_every_run_needs_is_a_mistake_with_its_line(arguments: list[str], ml: Shell) -> None:
    text = ml(*arguments, code=1)
    assert "a.yaml:8: regression_test_config.metric_success_conditions.evil/*: 'evil/*' matches no metric of" in text
    assert "a.yaml:10: regression_test_config.required_metrics[1]: 'goodput' matches no metric of" in text
    assert "note: eval/accuracy_final is better when higher, but the condition 'eval/*'" in text
    assert "250 ms" in text


def test_expressions_are_metrics_whatever_tags_are_included(tmp_path: Path, ml: Shell) -> None:
    (tmp_path / "a.yaml").write_text("""\
name: rate
image: i
command: [c]
accelerator: v5litepod-8
metric_collection_config:
  include_tags: [loss]
  expressions: {rate: {expression: tokens / chips, unit: tokens/s, better: higher}, half: metric("loss_final") / 2}
regression_test_config:
  metric_success_conditions: {"rate*": {comparison: greater}}
""")
    write(tmp_path / "run", tokens=[80.0], loss=[3.0])
    (run,) = ml.json("validate", str(tmp_path / "a.yaml"), "--with-run", str(tmp_path / "run"))["runs"]
    facts = {one["name"]: (one["unit"], one["better"], one["judged_by"]) for one in run["metrics"]}
    assert facts.pop("rate_final") == ("tokens/s", "higher", "rate*")
    assert set(facts) == {"loss_final", "half"}


def test_one_file_belongs_to_a_run(arguments: list[str], tmp_path: Path, ml: Shell) -> None:
    assert "one PATH" in ml("validate", str(tmp_path), "--with-run", arguments[-1], code=2)
    assert "there is no such folder" in ml(*arguments[:-1], str(tmp_path / "nothing"), code=2)


def test_a_metric_whose_direction_is_unknown_is_named(tmp_path: Path, ml: Shell) -> None:
    test_file, run_folder = tmp_path / "a.yaml", tmp_path / "run"
    test_file.write_text(
        "name: t\nimage: i\ncommand: [c]\nregression_test_config:\n"
        "  metric_success_conditions: {default: {comparison: less}}\n"
    )
    write(run_folder, time_saved=[1], loss=[1])
    text = " ".join(ml("validate", str(test_file), "--with-run", str(run_folder)).split())
    assert "it is unknown whether time_saved_final should rise or fall, so `default` judges both sides" in text
    assert "unknown whether loss_final" not in text


UNFIT = """\
name: a-test
image: i
command: [c]
regression_test_config:
  metric_success_conditions:
    # per second
    examples_average:
      comparison: greater
      success_threshold: {percent_difference: 0.5}
    acuracy_final: {comparison: greater, success_threshold: {fixed_value: 0.5}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(UNFIT)
    return path


@pytest.fixture
def history(tmp_path: Path) -> Path:
    random, levels = Random(1), {"examples_average": 1000, "accuracy_final": 0.9}
    values = {name: [level * random.gauss(1, 0.02) for _ in range(60)] for name, level in levels.items()}
    return history_file(tmp_path, values)


def test_conditions_that_do_not_fit_are_problems_with_their_lines(
    config: Path, history: Path, ml: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["validate", str(config)]) == 0
    capsys.readouterr()
    first, second, last = ml("validate", str(config), "--with-history", str(history), code=1).splitlines()
    place = "regression_test_config.metric_success_conditions"
    assert first.startswith(f"{config}:10: {place}.acuracy_final: no past run produced a metric of this name; did you")
    assert second.startswith(f"{config}:7: {place}.examples_average: fails ")
    assert last == "2 mistakes in 1 of 1 file."
    found = ml.json("validate", str(config), "--with-history", str(history), code=1)
    assert not found["valid"]
    assert {problem["test"] for problem in found["problems"]} == {"a-test"}


def test_the_history_may_be_in_the_warehouse(config: Path, address: str, ml: Shell) -> None:
    assert "no run of a test 'a-test' was recorded" in ml(
        "validate", str(config), "--warehouse", address, "--with-history", code=2
    )
    assert "no past run produced a metric of this name" in ml(
        "validate", str(config), "--warehouse", address, "--with-history", TEST, code=1
    )


def test_tests_of_a_folder_without_past_runs_are_warnings(
    config: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config.with_name(f"{TEST}.yaml").write_text(UNFIT.replace("a-test", TEST))
    assert cli.main(["validate", str(config.parent), "--warehouse", address, "--with-history"]) == 1
    printed = capsys.readouterr()
    assert f"warning: {config}: no run of a test 'a-test' was recorded" in printed.err
    assert f"{TEST}.yaml:10: " in printed.out


def test_an_invalid_file_has_its_own_problems_alone(tmp_path: Path, history: Path, ml: Shell) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("name: wrong\n")
    assert "command: is required" in ml("validate", str(path), "--with-history", str(history), code=1)
