"""The changes of the level of a metric, and what differs between runs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ml_metrics.config.conditions import MinChange
from ml_metrics.core.model import Outcome, StoredMetric
from ml_metrics.judge import change_text, changes_in, differences, without_unique
from ml_metrics.judge.changes import MAX_DIFFERENCES
from unit.judge.cases import history, noisy, point


def test_annotations_skip_non_finite_values() -> None:
    values: list[float | None] = [*noisy([(100, 30), (120, 10)])]
    rows: list[StoredMetric] = [*history(values), point(12.5, None), point(13.5, float("inf"))]
    (change,) = changes_in(rows)
    assert (change.run_key, change.index) == ("run-00030", 30)
    assert change.before == pytest.approx(100, abs=1)
    assert change.after == pytest.approx(120, abs=1)


def test_runs_that_diverged_are_no_level() -> None:
    diverged = [replace(row, outcome=Outcome.NON_FINITE, non_finite=0.5) for row in history([500.0] * 10)]
    others = history(noisy([(100, 40)]))
    assert changes_in([*others[:-10], *(replace(row, value=500.0) for row in others[-10:])])
    mixed = [
        replace(bad, run_key=row.run_key, timestamp=row.timestamp)
        for bad, row in zip(diverged, others[-10:], strict=True)
    ]
    assert changes_in([*others[:-10], *mixed]) == []


def test_rows_in_any_order_have_the_same_changes() -> None:
    rows = [point(0.25, math.nan), *history(noisy([(100, 30), (120, 20)]))]
    assert changes_in(rows[::-1]) == changes_in(rows)


def test_a_change_that_is_smaller_than_asked_is_left_out() -> None:
    rows = history(noisy([(100, 30), (106, 30)]))
    assert len(changes_in(rows, min_change=MinChange(absolute=5, percent=5))) == 1
    assert changes_in(rows, min_change=MinChange(absolute=8)) == []
    assert changes_in(rows, min_change=MinChange(percent=8)) == []


def test_only_changes_that_are_certain_enough_are_returned() -> None:
    rows = history(noisy([(100, 40), (102, 40)]))
    (change,) = changes_in(rows)
    assert changes_in(rows, certainty=change.certainty) == [change]
    assert changes_in(rows, certainty=change.certainty + 0.001) == []


def test_a_change_names_what_differs_from_the_run_before() -> None:
    rows = history(noisy([(100, 30), (90, 20)]))
    images = {row.run_key: {"image": "a" if number < 30 else "b", "node": "n1"} for number, row in enumerate(rows)}
    (change,) = changes_in(rows, attributes=images)
    assert change.differs == ("image: a → b",)
    assert str(change).startswith("the level fell from ")
    assert str(change).endswith("%), first in run run-00030 of 2026-01-31 00:00, where image: a → b")


def test_a_change_has_the_newest_unit() -> None:
    rows = history(noisy([(100, 30), (90, 20)]))
    renamed = [*(replace(row, unit="s") for row in rows[:-1]), replace(rows[-1], unit="ms")]
    assert [change.unit for change in changes_in(renamed)] == ["ms"]


def test_a_change_from_zero_has_no_percentage() -> None:
    (change,) = changes_in(history([0.0] * 20 + [3.0] * 20))
    assert change.percent is None
    assert "the level rose from 0 to 3, first" in str(change)


def test_the_most_telling_differences_are_first() -> None:
    """Runs are on another node each time, and what only one of them wrote itself was not changed."""
    runs = {
        "a": {"zlib": "1", "image_digest": "sha256:a", "same": "x", "image": "", "node": "n-1", "only_here": "y"},
        "b": {
            "zlib": "2",
            "image_digest": "sha256:b",
            "same": "x",
            "node_type": "fast",
            "node": "n-2",
            "param.x": "1",
            "zone": "a",
        },
    }
    assert differences(runs, "a", "b") == (
        "image_digest: sha256:a → sha256:b",
        "node_type: none → fast",
        "param.x: none → 1",
        "zlib: 1 → 2",
        "zone: none → a",
    )
    assert differences(runs, "a", "a") == differences(runs, "a", "unknown") == differences(runs, "x", "y") == ()


def test_many_differences_are_counted() -> None:
    runs = {"a": {f"p{n}": "1" for n in range(20)}, "b": {f"p{n}": "2" for n in range(20)}}
    found = differences(runs, "a", "b")
    assert len(found) == MAX_DIFFERENCES + 1
    assert found[-1] == "12 more"


@pytest.mark.parametrize(
    "name", ["env", "test file secrets", "param.api_token", "HF_TOKEN", "api_tokens", "DB_PASSWORD", "param.api-key"]
)
def test_values_that_may_be_secret_are_not_shown(name: str) -> None:
    assert change_text(name, "hunter1", "hunter2") == f"{name} (values not shown)"


@pytest.mark.parametrize("name", ["param.max_tokens", "param.tokenizer", "tokens_per_batch"])
def test_the_tokens_of_a_model_are_no_secret(name: str) -> None:
    assert change_text(name, "1", "2") == f"{name}: 1 → 2"


def test_long_texts_are_cut_to_one_line() -> None:
    assert change_text("notes", "a\nb", "c" * 500) == f"notes: a b → {'c' * 79}…"


def test_an_attribute_that_names_the_run_explains_nothing() -> None:
    runs = {str(number): {"run_name": f"run-{number}", "image_digest": f"sha256:{number}"} for number in range(5)}
    assert all(set(each) == {"image_digest"} for each in without_unique(runs).values())
    few = {key: runs[key] for key in "0123"}
    assert without_unique(few) == few
