"""What `from ml_metrics import ...` offers, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import ml_metrics
from ml_metrics import ConfigError, judge_metrics, measure_goodput, read_events
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import Outcome

LESS = {"loss": {"comparison": "less", "success_threshold": {"stddevs_from_mean": 3}}}


@pytest.mark.parametrize("name", ml_metrics.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(ml_metrics, name).__name__ == name
    assert name in dir(ml_metrics)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'judge_everything'"):
        _ = ml_metrics.judge_everything


def test_importing_the_package_imports_neither_airflow_nor_numpy() -> None:
    code = "import sys, ml_metrics; print({'airflow', 'numpy', 'pydantic'} & set(sys.modules))"
    environment = {"PYTHONPATH": str(Path(ml_metrics.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "set()\n"


def test_values_are_judged_by_their_history() -> None:
    history = {"loss": [0.20, 0.21, 0.19, 0.20, 0.22]}
    assert judge_metrics(LESS, {"loss": 0.21}, history).passed
    assert judge_metrics(LESS, pd.Series({"loss": 0.21}), pd.Series(history)).passed  # type: ignore[arg-type]
    assert judge_metrics(LESS, {"loss": 0.21}, {"loss": []}).passed
    (verdict,) = judge_metrics(LESS, {"loss": 0.31}, history).verdicts
    assert (verdict.outcome, verdict.baseline_points) == (Outcome.FAIL, 5)


def test_values_without_history_have_insufficient_data() -> None:
    (verdict,) = judge_metrics(RegressionTestConfig(metric_success_conditions=LESS), {"loss": 0.3}).verdicts
    assert verdict.outcome is Outcome.INSUFFICIENT_DATA


def test_a_wrong_condition_is_an_error_that_names_the_metric_and_the_key() -> None:
    with pytest.raises(ConfigError, match=r"conditions: loss\.comparison: .*'greater'"):
        judge_metrics({"loss": {"comparison": "smaller", "success_threshold": {"fixed_value": 1}}}, {"loss": 1})


def test_a_folder_without_event_files_has_no_series(tmp_path: Path) -> None:
    assert read_events(tmp_path).files == 0
    with pytest.raises(ConfigError, match="'drop' is neither 'keep' nor 'supersede'"):
        read_events(tmp_path, restarts="drop")


def test_a_folder_without_a_goodput_log_has_no_goodput(tmp_path: Path) -> None:
    assert not measure_goodput(tmp_path).found


def test_a_warehouse_is_opened_for_the_deployment_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DEPLOYMENT", "prod")
    address = f"sqlite:///{tmp_path}/w.db"
    with ml_metrics.open_warehouse(address) as warehouse, ml_metrics.open_warehouse(address, deployment="dev") as dev:
        assert (warehouse.deployment, dev.deployment) == ("prod", "dev")
