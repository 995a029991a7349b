"""Differences between runs."""

from __future__ import annotations

import pytest

from ml_metrics.judge import change_text, differences, without_unique
from ml_metrics.judge.baseline import MAX_DIFFERENCES


def test_the_most_telling_differences_are_first() -> None:
    runs = {
        "a": {"zlib": "1", "image_digest": "sha256:a", "same": "x", "image": ""},
        "b": {"zlib": "2", "image_digest": "sha256:b", "same": "x", "node_type": "fast"},
    }
    assert differences(runs, "a", "b") == (
        "image_digest: sha256:a -> sha256:b",
        "node_type: none -> fast",
        "zlib: 1 -> 2",
    )
    assert differences(runs, "a", "a") == differences(runs, "x", "y") == ()


def test_many_differences_are_counted() -> None:
    runs = {"a": {f"p{n}": "1" for n in range(20)}, "b": {f"p{n}": "2" for n in range(20)}}
    found = differences(runs, "a", "b")
    assert len(found) == MAX_DIFFERENCES + 1
    assert found[-1] == "12 more"


@pytest.mark.parametrize("name", ["env", "test file secrets", "param.api_token", "DB_PASSWORD", "param.api-key"])
def test_values_that_may_be_secret_are_not_shown(name: str) -> None:
    assert change_text(name, "hunter1", "hunter2") == f"{name} (values not shown)"


def test_long_texts_are_cut_to_one_line() -> None:
    assert change_text("notes", "a\nb", "c" * 500, "→") == f"notes: a b → {'c' * 79}…"


def test_an_attribute_that_names_the_run_explains_nothing() -> None:
    runs = {str(number): {"run_name": f"run-{number}", "image_digest": f"sha256:{number}"} for number in range(5)}
    assert all(set(each) == {"image_digest"} for each in without_unique(runs).values())
    few = {key: runs[key] for key in "0123"}
    assert without_unique(few) == few
