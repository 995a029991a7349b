"""Test files are replaced as a whole and in one step, or not at all."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.config.editing import edited
from ml_metrics.config.loading import load_file

RULE = {"comparison": "less", "success_threshold": {"change_point": {}}}
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
