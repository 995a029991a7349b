"""Conditions are written into a text of which everything else stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.editing import as_yaml, with_condition, with_conditions
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.yaml import parse_yaml

RULE = {"comparison": "less", "success_threshold": {"change_point": {}}}
PERCENT = {
    "comparison": "less",
    "success_threshold": {"percent_difference": 6.4},
    "against": "best",
    "wait_for_n_points_of_history": 10,
}
HEAD = "# a test\nname: a  # its name\n\ncommand: [c]   # as it was\n"

CASES = {
    "nothing yet": (
        HEAD,
        HEAD
        + """\
regression_test_config:
  metric_success_conditions:
    loss:
      comparison: less
      success_threshold: {change_point: {}}
""",
    ),
    "no end of the last line": (
        "name: a\nimage: i",
        """\
name: a
image: i
regression_test_config:
  metric_success_conditions:
    loss:
      comparison: less
      success_threshold: {change_point: {}}
""",
    ),
    "other metrics": (
        """\
regression_test_config:
    # what must hold
    metric_success_conditions:
        time:   # the whole job
            comparison: less
            success_threshold:
                fixed_value: 3

        # nothing else yet
    required_metrics:
    - loss

goodput: {enabled: true}
""",
        """\
regression_test_config:
    # what must hold
    metric_success_conditions:
        time:   # the whole job
            comparison: less
            success_threshold:
                fixed_value: 3
        loss:
          comparison: less
          success_threshold: {change_point: {}}

        # nothing else yet
    required_metrics:
    - loss

goodput: {enabled: true}
""",
    ),
    "the metric itself": (
        """\
regression_test_config:
  metric_success_conditions:
    loss:
      # measured on three nodes
      severity: warn
      comparison: greater   # less is worse
      # chosen by hand
      success_threshold:
        stddevs_from_mean: 4.5  # in March
      against: best
      wait_for_n_points_of_history: 10  # a week
      optional: true  # not on every node
    time: {comparison: less, success_threshold: {fixed_value: 1}}
""",
        """\
regression_test_config:
  metric_success_conditions:
    loss:
      # measured on three nodes
      severity: warn
      comparison: less  # less is worse
      # chosen by hand
      # in March
      success_threshold: {change_point: {}}
      # a week
      optional: true  # not on every node
    time: {comparison: less, success_threshold: {fixed_value: 1}}
""",
    ),
    "braces": (
        (
            "regression_test_config: {metric_success_conditions: {default: {comparison: less,\n"
            "  success_threshold: {fixed_value: 1}}, loss: {optional: true, comparison: greater, success_threshold:\n"
            "  {fixed_value: 1}}}}  # short\n"
        ),
        (
            "regression_test_config: {metric_success_conditions: {default: {comparison: less,\n"
            "  success_threshold: {fixed_value: 1}}, loss: {comparison: less, success_threshold: {change_point: {}}, "
            "optional: true}}}  # short\n"
        ),
    ),
    "empty braces": (
        "regression_test_config: { } # none\n",
        (
            "regression_test_config: {metric_success_conditions: {loss: {comparison: less, success_threshold: "
            "{change_point: {}}}} } # none\n"
        ),
    ),
    "another metric in braces": (
        "regression_test_config:\n  metric_success_conditions: {'a': {comparison: less}}\n",
        (
            "regression_test_config:\n  metric_success_conditions: {'a': {comparison: less}, loss: {comparison: less, "
            "success_threshold: {change_point: {}}}}\n"
        ),
    ),
    "a last value that is an alias": (
        "x: &x {comparison: less}\nregression_test_config:\n  metric_success_conditions: {a: *x}\n",
        (
            "x: &x {comparison: less}\nregression_test_config:\n  metric_success_conditions: {a: *x, loss: {"
            "comparison: less, success_threshold: {change_point: {}}}}\n"
        ),
    ),
    "text at the end": (
        "name: a\ndescription: |\n  text # no comment\n\n  more\n",
        """\
name: a
description: |
  text # no comment

  more
regression_test_config:
  metric_success_conditions:
    loss:
      comparison: less
      success_threshold: {change_point: {}}
""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_the_condition_changes(name: str) -> None:
    before, after = CASES[name]
    assert with_conditions(before, "a.yaml", {"loss": RULE}) == after
    assert with_conditions(after, "a.yaml", {"loss": RULE}) == after


@pytest.mark.parametrize("name", CASES)
def test_line_ends_stay(name: str) -> None:
    before, after = (text.replace("\n", "\r\n") for text in CASES[name])
    if "\r\n" in before:
        assert with_conditions(before, "a.yaml", {"loss": RULE}) == after


def test_several_metrics_and_more_keys() -> None:
    text = with_conditions("name: a\n", "a.yaml", {"loss": PERCENT, "a b: c": RULE, "true": RULE})
    assert text == (
        "name: a\n" + as_yaml({"loss": PERCENT, "a b: c": RULE, "true": RULE}).replace('"true"', '"true"') + "\n"
    )
    assert "against: best\n" in text
    back = with_conditions(text, "a.yaml", {"loss": RULE})
    assert "against" not in back
    assert '"a b: c":' in back


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x: &x {comparison: less}\nregression_test_config:\n  metric_success_conditions:\n    loss: *x\n",
            r"a.yaml:4: regression_test_config.metric_success_conditions.loss: is an alias",
        ),
        ("regression_test_config: [1]\n", "a.yaml:1: regression_test_config: has no mapping here"),
        (
            "regression_test_config:\n  metric_success_conditions:\n    loss: {window: 3, # why\n      }\n",
            "a.yaml:3: has comments within { }",
        ),
        (
            (
                "x: &x {window: 3}\nregression_test_config:\n  metric_success_conditions:\n    loss:\n      <<: *x\n"
                "      comparison: less\n"
            ),
            "cannot be edited safely",
        ),
    ],
)
def test_what_cannot_be_edited_safely_is_an_error(text: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        with_conditions(text, "a.yaml", {"loss": RULE})


NAMES = st.text(min_size=1, max_size=12)
CONDITION_KEYS = st.fixed_dictionaries(
    {},
    optional={
        "comparison": st.sampled_from(["less", "greater"]),
        "success_threshold": st.just({"fixed_value": 1.5}),
        "severity": st.just("warn"),
        "window": st.integers(2, 99),
    },
).filter(bool)


@given(st.dictionaries(NAMES, CONDITION_KEYS, max_size=4), NAMES, st.sampled_from([RULE, PERCENT]))
def test_any_conditions_can_be_written_and_read(conditions: dict[str, Any], metric: str, rule: dict[str, Any]) -> None:
    text = with_conditions("name: a # b\n", "a.yaml", conditions) if conditions else "name: a # b\n"
    before = parse_yaml(text, "a.yaml")[0]
    after = with_conditions(text, "a.yaml", {metric: rule})
    assert parse_yaml(after, "a.yaml")[0] == with_condition(before, metric, rule)
    assert after.startswith("name: a # b\n")
