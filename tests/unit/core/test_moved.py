"""Names that a database, a configuration or a program may have stored before the modules moved are still found."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import pytest
from airflow.sdk._shared.module_loading import import_string

from ml_metrics.core.moved import MOVED


@pytest.mark.parametrize(
    ("stored", "present"),
    [
        ("ml_metrics.operators.pod_trigger.PodTrigger", "ml_metrics.airflow.operators.pod_trigger.PodTrigger"),
        (
            "ml_metrics.operators.answer_trigger.AnswerTrigger",
            "ml_metrics.airflow.operators.answer_trigger.AnswerTrigger",
        ),
        ("ml_metrics.notify.callbacks.notify_overdue", "ml_metrics.airflow.callbacks.notify_overdue"),
        ("ml_metrics.product_dags.product_dag", "ml_metrics.airflow.product_dags.product_dag"),
        ("ml_metrics.goodput.GoodputMonitor", "ml_metrics.measure.goodput.GoodputMonitor"),
        ("ml_metrics.goodput.calculator.GoodputCalculator", "ml_metrics.measure.goodput.calculator.GoodputCalculator"),
        ("ml_metrics.cloud.CloudLogger", "ml_metrics.measure.cloud.CloudLogger"),
    ],
)
def test_a_stored_name_is_the_same_object_as_the_present_one(stored: str, present: str) -> None:
    assert import_string(stored) is import_string(present)
    module = import_module(stored.rpartition(".")[0])
    assert module is sys.modules[module.__name__]
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__


@pytest.mark.parametrize("name", MOVED)
def test_a_module_that_moved_is_found_under_its_older_name(name: str) -> None:
    assert find_spec(name) is not None
    assert find_spec(MOVED[name]) is not None


def test_no_other_name_is_made_up() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_module("ml_metrics.operators.no_such_module")
    assert find_spec("ml_metrics.judge.levels") is None
