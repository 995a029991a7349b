"""Inheritance between files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.config.loading import load_file

TEST = "framework: tf\nmodel: m\nmode: func\nimage: i\ncommand: [c]\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_nearer_files_take_precedence(tmp_path: Path) -> None:
    write(tmp_path / "_defaults.yaml", "owner: all\nemails: [all@example.com]\ntimeout: 1h\nlabels: {a: all, b: all}\n")
    write(tmp_path / "team/_defaults.json", '{"owner": "team", "timeout": "2h", "labels": {"b": "team"}}')
    write(tmp_path / "team/_base.yaml", TEST + "timeout: 3h\nname: not-inherited\n")
    path = write(tmp_path / "team/t.yaml", "extends: _base.yaml\nmodel: n\n")
    (test,) = load_file(path, tmp_path).tests
    assert (test.name, test.owner, test.emails) == ("tf-n-func-cpu", "team", ("all@example.com",))
    assert test.timeout == timedelta(hours=3)
    assert test.labels == {"a": "all", "b": "team"}


def test_a_threshold_is_replaced_as_a_whole(tmp_path: Path) -> None:
    rule = "regression_test_config: {metric_success_conditions: {a: {%s}}}\n"
    write(tmp_path / "vision.yaml", rule % "comparison: less, window: 20, success_threshold: {stddevs_from_mean: 3}")
    path = write(tmp_path / "t.yaml", TEST + "metric_config: vision\n" + rule % "success_threshold: {fixed_value: 1}")
    condition = load_file(path).regression_test_config.metric_success_conditions["a"]
    assert (condition.comparison, condition.success_threshold.kind) == ("less", "fixed_value")
    assert "window" not in condition.model_fields_set


def test_keys_about_the_history_are_inherited_with_another_relative_threshold(tmp_path: Path) -> None:
    rule = "regression_test_config: {metric_success_conditions: {a: {%s}}}\n"
    write(tmp_path / "vision.yaml", rule % "comparison: less, window: 20, success_threshold: {stddevs_from_mean: 3}")
    own = "success_threshold: {percent_difference: {percent: 2}}"
    path = write(tmp_path / "t.yaml", TEST + "metric_config: vision\n" + rule % own)
    assert load_file(path).regression_test_config.metric_success_conditions["a"].window == 20


def test_null_removes_an_inherited_value(tmp_path: Path) -> None:
    write(tmp_path / "_defaults.yaml", "schedule: '@daily'\n")
    path = write(tmp_path / "t.yaml", TEST + "schedule: null\n")
    assert load_file(path, tmp_path).tests[0].schedule is None


def test_a_metric_config_ignores_defaults_of_tests(tmp_path: Path) -> None:
    write(tmp_path / "_defaults.yaml", "owner: all\n")
    assert load_file(write(tmp_path / "c.yaml", "metric_collection_config: {}\n"), tmp_path).tests == ()


def test_a_link_to_a_file_outside_the_root_is_rejected(tmp_path: Path) -> None:
    secret = write(tmp_path / "outside.yaml", TEST)
    root = tmp_path / "root"
    path = write(root / "t.yaml", "extends: link.yaml\n")
    (root / "link.yaml").symlink_to(secret)
    with pytest.raises(ConfigError, match="is outside"):
        load_file(path, root)
