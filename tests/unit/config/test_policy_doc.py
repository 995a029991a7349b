"""docs/settings.md lists every key of a policy, and everything that a template knows."""

from __future__ import annotations

import re
from pathlib import Path

from docstrings import docstrings
from golden import check
from ml_metrics.config.policy import Policy, read_policy
from ml_metrics.config.templates import NAMES, TEMPLATED
from unit.config.test_policy import BASELINE

DOC = Path(__file__).parents[3] / "docs" / "settings.md"


def test_every_key_is_listed() -> None:
    text = DOC.read_text(encoding="utf-8")
    rows = [f"| `{key}` | {meaning} |" for key, meaning in docstrings(Policy).items()]
    assert len(rows) == len(Policy.model_fields)
    table = "\n".join(["| key | meaning |", "| --- | --- |", *rows])
    filled = f"<!-- keys: Policy -->\n\n{table}\n\n<!-- end -->"
    check(str(DOC), re.sub(r"<!-- keys: Policy -->.*?<!-- end -->", lambda _: filled, text, flags=re.DOTALL))


def test_the_keys_of_the_controls_are_those_that_allow_something() -> None:
    """Each control has a pod in `test_policy.py` that is refused without its key."""
    table = DOC.read_text(encoding="utf-8").partition("| control of")[2].partition("\n\n")[0]
    keys = {key for row in table.splitlines()[2:] for key in re.findall(r"`([a-z_]+)`", row.split(" | ")[-1])}
    assert keys == {key for _, allowing in BASELINE for key in allowing} - {"priority_classes"}


def test_what_templates_know_is_listed() -> None:
    text = DOC.read_text(encoding="utf-8").partition("\n## Templates\n")[2].partition("\n## ")[0]
    words = set(re.findall(r"`([a-z_]+)(?:\.name)?`", text))
    assert words >= NAMES
    assert words >= set(TEMPLATED)


def test_the_example_is_a_policy(tmp_path: Path) -> None:
    (example,) = re.findall(r"```\n(# /etc.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "policy.yaml").write_text(example)
    policy = read_policy(tmp_path / "policy.yaml")
    assert policy.allows("images", "python:3.11")
    assert not policy.allows("images", "docker.io/python:3.11")
    assert policy.allows_host_path("/mnt/datasets/imagenet")
