"""The examples of the older documentation, which users have copied, load unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.config.collection import Strategy
from ml_metrics.config.conditions import Comparison
from ml_metrics.config.loading import load_file

TEXT = "the text 'True' is read as a boolean; remove the quotes"
COLLECTION = """
"metric_collection_config": {
  # (Required) Which of a metric's values becomes its row.
  "default_aggregation_strategies": ["final"],

  # (Optional) Other strategies for some metrics.
  "metric_to_aggregation_strategy": {
    "loss": ["final", "min"],  # Both.
    "accuracy": ["max"],       # Only the maximum.
  }

  # (Optional) A comma is missing above: it was printed so.
  "tags_to_ignore": ["LearningRate"],

  "time_to_accuracy": {
    "accuracy_threshold": 76.0,  # In percent.
    "accuracy_tag": "Accuracy/test",
  },

  # (Optional) Text where a boolean belongs.
  "write_to_bigquery": "True",

  "use_run_name_prefix": false
}
"""
REGRESSION = """
"regression_test_config": {
  "metric_success_conditions": {
    "Accuracy/test_final": {
      "comparison": "greater",
      "success_threshold": {
        # A fixed value.
        "fixed_value": 99.0
      }
    },
    "default": {
      "comparison": "less",
      "success_threshold": {
        "stddevs_from_mean": 4.0
      },
      "wait_for_n_points_of_history": 10
    }
  }

  # (Optional) Here, too, a comma is missing.
  "metric_subset_to_alert": [
    "total_wall_time",
    "Accuracy/test_final"
  ],
  "alert_for_oob_metrics": "True",
  "alert_for_failed_jobs": "False"
}
"""
RECIPES = {
    "no alerts": '"regression_test_config": {"alert_for_failed_jobs": false, "alert_for_oob_metrics": false},',
    "crashes only": '"regression_test_config": {"alert_for_oob_metrics": false},',
    "a constant": """
  "metric_collection_config": {
    "default_aggregation_strategies": ["final"],
    "write_to_bigquery": true
  },
  "regression_test_config": {
    "metric_success_conditions": {
      "metric_with_constant_value": {
        "comparison": "less_or_equal",
        "success_threshold": {
          "stddevs_from_mean": 0
        }
      }
    }
  },
""",
}


def write(folder: Path, text: str) -> Path:
    path = folder / "vision.json"
    path.write_text("{" + text + "}", encoding="utf-8")
    return path


def test_every_option_of_metric_collection(tmp_path: Path) -> None:
    path = write(tmp_path, COLLECTION)
    loaded = load_file(path)
    config = loaded.metric_collection_config
    assert config.metric_to_aggregation_strategy == {
        "loss": (Strategy.FINAL, Strategy.MIN),
        "accuracy": (Strategy.MAX,),
    }
    assert config.time_to_accuracy is not None
    assert config.time_to_accuracy.accuracy_threshold == 76.0
    assert (config.tags_to_ignore, config.write_to_bigquery) == (("LearningRate",), True)
    assert loaded.warnings == (
        f"{path}:13: a comma is missing after metric_collection_config.metric_to_aggregation_strategy",
        f"{path}:21: metric_collection_config.write_to_bigquery: {TEXT}",
    )


def test_every_option_of_regression_tests(tmp_path: Path) -> None:
    loaded = load_file(write(tmp_path, REGRESSION))
    config = loaded.regression_test_config
    assert config.metric_success_conditions["Accuracy/test_final"].comparison is Comparison.GREATER
    assert config.metric_success_conditions["default"].wait_for_n_points_of_history == 10
    assert (config.alert_for_oob_metrics, config.alert_for_failed_jobs) == (True, False)
    assert len(loaded.warnings) == 3


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_recipes(tmp_path: Path, recipe: str) -> None:
    assert load_file(write(tmp_path, recipe)).warnings == ()


def test_both_spellings_are_equivalent(tmp_path: Path) -> None:
    one = load_file(write(tmp_path, COLLECTION))
    other = load_file(write(tmp_path, COLLECTION.replace("to_aggregation_strategy", "to_aggregation_strategies")))
    assert one.metric_collection_config == other.metric_collection_config


def test_yaml_and_json_are_equivalent(tmp_path: Path) -> None:
    path = tmp_path / "vision.yaml"
    path.write_text("regression_test_config: {alert_for_oob_metrics: false}\n", encoding="utf-8")
    from_json = load_file(write(tmp_path, RECIPES["crashes only"]))
    assert load_file(path).regression_test_config == from_json.regression_test_config
