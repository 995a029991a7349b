"""`ml-metrics validate --with-run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.ui import cli
from unit.measure.collect.run_folders import write

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


def test_each_pattern_with_what_it_matches(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*arguments, "--json"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
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


def test_what_every_run_needs_is_a_mistake_with_its_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 1
    text = capsys.readouterr().out
    assert "a.yaml:8: regression_test_config.metric_success_conditions.evil/*: 'evil/*' matches no metric of" in text
    assert "a.yaml:10: regression_test_config.required_metrics[1]: 'goodput' matches no metric of" in text
    assert "note: eval/accuracy_final is better when higher, but the condition 'eval/*'" in text
    assert "250 ms" in text


def test_expressions_are_metrics_whatever_tags_are_included(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert cli.main(["validate", str(tmp_path / "a.yaml"), "--with-run", str(tmp_path / "run"), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    facts = {one["name"]: (one["unit"], one["better"], one["judged_by"]) for one in run["metrics"]}
    assert facts.pop("rate_final") == ("tokens/s", "higher", "rate*")
    assert set(facts) == {"loss_final", "half"}


def test_one_file_belongs_to_a_run(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", str(tmp_path), "--with-run", arguments[-1]]) == 2
    assert "one PATH" in capsys.readouterr().err
    assert cli.main([*arguments[:-1], str(tmp_path / "nothing")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_a_metric_whose_direction_is_unknown_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test_file, run_folder = tmp_path / "a.yaml", tmp_path / "run"
    test_file.write_text(
        "name: t\nimage: i\ncommand: [c]\nregression_test_config:\n"
        "  metric_success_conditions: {default: {comparison: less}}\n"
    )
    write(run_folder, time_saved=[1], loss=[1])
    assert cli.main(["validate", str(test_file), "--with-run", str(run_folder)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "it is unknown whether time_saved_final should rise or fall, so `default` judges both sides" in text
    assert "unknown whether loss_final" not in text
