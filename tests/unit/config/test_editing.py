"""Conditions are written into a text of which everything else stays as it is."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import ConfigError
from ml_metrics.config.editing import as_yaml, edited, with_condition, with_conditions
from ml_metrics.config.loading import load_file
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


TEST = "name: a\nimage: i  # any\ncommand: [c]\n"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_the_diff_is_shown_and_the_file_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", TEST)
    path.chmod(0o640)
    edit = edited(path, {"loss": RULE})
    assert path.read_text() == TEST
    assert edit.diff.splitlines()[2:] == [
        "@@ -1,3 +1,8 @@",
        " name: a",
        " image: i  # any",
        " command: [c]",
        "+regression_test_config:",
        "+  metric_success_conditions:",
        "+    loss:",
        "+      comparison: less",
        "+      success_threshold: {change_point: {}}",
    ]
    edit.save()
    assert path.read_text() == edit.after
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["a.yaml"]
    condition = load_file(path).regression_test_config.metric_success_conditions["loss"]
    assert condition.success_threshold.kind == "change_point"


def test_a_link_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    target = write(tmp_path / "real.yaml", "\ufeff" + TEST.replace("\n", "\r\n"))
    link = tmp_path / "a.yaml"
    link.symlink_to(target)
    edited(link, {"loss": RULE}).save()
    assert link.is_symlink()
    written = target.read_bytes().decode()
    assert written.startswith("\ufeffname: a\r\nimage: i  # any\r\n")
    assert written.count("\n") == written.count("\r\n")


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", TEST)
    edit = edited(path, {"loss": RULE})
    write(path, TEST + "owner: me\n")
    with pytest.raises(ConfigError, match="was changed by someone else"):
        edit.save()
    assert path.read_text() == TEST + "owner: me\n"


def test_json_keeps_its_indent(tmp_path: Path) -> None:
    content = {"name": "a", "image": "i", "command": ["c"], "params": {"x": 1e-05, "y": "é"}}
    path = write(tmp_path / "a.json", json.dumps(content, indent="\t", ensure_ascii=False) + "\n")
    edit = edited(path, {"loss": RULE})
    assert [line[0] for line in edit.diff.splitlines()[3:] if "}" not in line].count("-") == 0
    edit.save()
    expected = {**content, "regression_test_config": {"metric_success_conditions": {"loss": RULE}}}
    assert path.read_text() == json.dumps(expected, indent="\t", ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonnet", "{}", "is a Jsonnet program"),
        ("a.json", '{"name": "a", // why\n"image": "i", "command": ["c"]}', "has comments or trailing commas"),
        ("a.yaml", "name: a\nimage: i\n", "would become invalid: a.yaml:1: command: is required"),
        ("a.yaml", "name: [", "is not YAML"),
    ],
)
def test_what_is_not_written_is_printed(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigError, match=message) as raised:
        edited(path, {"loss": RULE})
    assert "add this to it:\nregression_test_config:\n  metric_success_conditions:\n    loss:" in str(raised.value)
    assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_rule_that_would_be_mixed_with_an_inherited_one_is_not_written(tmp_path: Path) -> None:
    write(
        tmp_path / "_defaults.yaml",
        "regression_test_config:\n  metric_success_conditions:\n    loss:\n      comparison: less\n"
        "      success_threshold: {fixed_value: 3}\n      min_change: {percent: 3}\n",
    )
    path = write(tmp_path / "a.yaml", TEST)
    with pytest.raises(ConfigError, match="the condition of 'loss' would inherit min_change from another file"):
        edited(path, {"loss": RULE})
    assert edited(path, {"loss": {**RULE, "min_change": {"percent": 2}}}).after


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml: cannot be edited"):
        edited(tmp_path / "a.yaml", {"loss": RULE})
