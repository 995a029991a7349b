"""`relative_to` of a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from ml_metrics import TestDefinition
from ml_metrics.config.conditions import Condition, RegressionTestConfig
from ml_metrics.config.loading import load_file
from ml_metrics.judge import rule_of

if TYPE_CHECKING:
    from pathlib import Path

STRATEGIES = {"step_time": ["median"], "matmul_reference": ["median"], "size_*": ["max"]}


def definition(reference: str) -> TestDefinition:
    return TestDefinition(
        name="t",
        image="i",
        command=("c",),
        metric_collection_config={"metric_to_aggregation_strategy": STRATEGIES},
        regression_test_config={
            "metric_success_conditions": {
                "step_time_median": {"comparison": "less", "relative_to": reference},
                "warm_up": {"comparison": "less"},
            }
        },
    )


@pytest.mark.parametrize(
    "reference", ["matmul_reference_median", "warm_up", "goodput", "size_of_it_max", "total_wall_time", "another_final"]
)
def test_names_that_may_be_of_a_metric_are_accepted(reference: str) -> None:
    condition = definition(reference).regression_test_config.metric_success_conditions["step_time_median"]
    assert condition.relative_to == reference
    assert rule_of(condition) == f"no rise that lasts 3 runs, relative to {reference}"


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("matmul_reference", "matmul_reference_median"),
        ("matmul_reference_max", "matmul_reference_median"),
        ("matmul_refrence_median", "matmul_reference_median"),
        ("warm_upp", "warm_up"),
    ],
)
def test_a_mistaken_name_is_an_error_at_its_place(reference: str, meant: str) -> None:
    with pytest.raises(ValidationError) as error:
        definition(reference)
    (mistake,) = error.value.errors()
    conditions = ("regression_test_config", "metric_success_conditions", "step_time_median")
    assert mistake["loc"] == (*conditions, "relative_to")
    assert f"no metric is named {reference!r}; did you mean {meant!r}?" in mistake["msg"]


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("loss", {"relative_to": "loss"}, "a metric cannot be relative to itself"),
        ("loss", {"relative_to": "loss*"}, "is a pattern: name one metric of the run"),
        ("loss", {"relative_to": "re:loss"}, "is a pattern: name one metric of the run"),
        ("loss", {"relative_to": ""}, "at least 1 character"),
        ("loss_curve", {"relative_to": "loss", "curve": {}}, "remove relative_to"),
    ],
)
def test_other_values_are_mistakes(name: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RegressionTestConfig.model_validate({"metric_success_conditions": {name: given}})


def test_a_condition_survives_its_document() -> None:
    condition = Condition.model_validate({"comparison": "less", "relative_to": "matmul"})
    assert Condition.model_validate(condition.model_dump(mode="json")) == condition
    curve = Condition.model_validate({"curve": {}})
    assert Condition.model_validate(curve.model_dump(mode="json")) == curve


def test_a_fixed_threshold_does_not_inherit_it(tmp_path: Path) -> None:
    """A number that was written for the metric is none for its quotient."""
    shared = "regression_test_config: {metric_success_conditions: {loss: {comparison: less, relative_to: matmul}}}\n"
    (tmp_path / "_defaults.yaml").write_text(shared)
    for name, threshold in (("fixed", "{fixed_value: 3}"), ("spread", "{stddevs_from_mean: 4}")):
        own = f"regression_test_config: {{metric_success_conditions: {{loss: {{success_threshold: {threshold}}}}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(f'name: {name}\nimage: "i:1"\ncommand: ["c"]\n{own}')
        (test,) = load_file(tmp_path / f"{name}.yaml").tests
        condition = test.regression_test_config.metric_success_conditions["loss"]
        assert condition.relative_to == (None if name == "fixed" else "matmul")
