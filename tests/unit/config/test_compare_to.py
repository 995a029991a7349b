"""`compare_to` of a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from ml_metrics.config.conditions import Condition
from ml_metrics.config.loading import load_file
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.judge import rule_of

if TYPE_CHECKING:
    from pathlib import Path

RULE = {"comparison": "less", "success_threshold": {"percent_difference": 20}}


def condition(compare_to: Any) -> Condition:
    return Condition.model_validate({**RULE, "compare_to": compare_to})


@pytest.mark.parametrize(
    ("given", "text", "series"),
    [
        ("nightly", "test nightly", "nightly"),
        ({"test": "nightly"}, "test nightly", "nightly"),
        ({"deployment": "prod"}, "deployment prod", "own of deployment prod"),
        ({"deployment": "prod", "test": "nightly"}, "test nightly of deployment prod", "nightly of deployment prod"),
    ],
)
def test_both_forms(given: Any, text: str, series: str) -> None:
    found = condition(given)
    assert rule_of(found) == f"less than mean + 20 % of {text}"
    assert found.series_of("own") == series
    short = given["test"] if given == {"test": "nightly"} else given
    assert found.model_dump(mode="json", exclude_unset=True)["compare_to"] == short
    assert Condition.model_validate(found.model_dump(mode="json", exclude_unset=True)) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give a test, a deployment, or both"),
        ("", "give the name of a test, or a mapping"),
        (["nightly"], "give the name of a test, or a mapping"),
        (3, "give the name of a test, or a mapping"),
        ({"deployment": ""}, "at least 1 character"),
        ({"test": None}, "give a test, a deployment, or both"),
    ],
)
def test_other_values_are_mistakes(given: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        condition(given)


def test_a_misspelt_key_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "regression_test_config:\n"
        "  metric_success_conditions:\n"
        "    loss:\n"
        "      comparison: less\n"
        "      success_threshold: {percent_difference: 20}\n"
        "      compare_to:\n"
        "        deploymnet: prod\n"
    )
    with pytest.raises(InvalidFileError, match=r"rules.yaml:7: .*did you mean '.*deployment"):
        load_file(file)
