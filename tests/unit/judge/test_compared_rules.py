"""Rules beside each other on one history: their failures, and how late each finds a change of level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics.config.conditions import Condition
from ml_metrics.judge import Change, ComparedRules, compare_rules
from unit.judge.cases import DAY, START, TEST, condition, history, point

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ml_metrics.core.model import StoredMetric

LIMIT = condition({"fixed_value": 15}, "less")


def change(index: int, before: float, after: float) -> Change:
    return Change(f"run-{index:05}", START + index * DAY, index, before, after, in_noise=9.0, certainty=0.9)


def everywhere(content: dict[str, Any]) -> Callable[[str], Condition]:
    found = Condition.model_validate(content)
    return lambda _: found


def compared(
    rows: Sequence[StoredMetric], changes: Sequence[Change] = (), rule: dict[str, Any] = LIMIT, **rest: Any
) -> ComparedRules:
    return compare_rules({"rule": everywhere(rule)}, rows, {"loss": changes}, test=TEST, **rest)


def counts(result: ComparedRules) -> dict[str, Any]:
    return result.by_rule["rule"]["loss"].document()


def test_the_runs_before_a_rule_fails() -> None:
    result = compared(history([10.0] * 5 + [14.0] * 3 + [20.0] * 4), [change(5, 10, 18)])
    assert counts(result) == {
        "runs": 12, "fail": 4, "share": 4 / 12, "alerts": 1, "unmatched": 0, "changes": 1, "found": 1, "runs_late": 3
    }  # fmt: skip
    assert result.findings[0].document() == {
        "metric": "loss",
        "uuid": "run-00005",
        "timestamp": "2026-01-06T00:00:00+00:00",
        "before": 10,
        "after": 18,
        "certainty": 0.9,
        "runs_late": {"rule": 3},
    }


def test_a_failure_after_fifteen_runs_or_after_the_next_change_is_too_late() -> None:
    late = compared(history([10.0] * 5 + [14.0] * 15 + [20.0]), [change(5, 10, 14)])
    assert (counts(late)["found"], counts(late)["unmatched"]) == (0, 0)
    after_the_next = compared(history([10.0] * 5 + [14.0] * 3 + [20.0] * 3), [change(5, 10, 14), change(8, 14, 20)])
    assert after_the_next.by_rule["rule"]["loss"].late == {("loss", "run-00005"): None, ("loss", "run-00008"): 0}


def test_an_alert_belongs_to_a_change_from_shortly_before_it_to_the_end_of_its_level() -> None:
    values = [10.0] * 40
    for bad in (2, 8, 25, 39):
        values[bad] = 20.0
    steps = [change(10, 10, 12), change(28, 12, 10)]
    assert counts(compared(history(values), steps))["alerts"] == 4
    assert counts(compared(history(values), steps))["unmatched"] == 2


@pytest.mark.parametrize(("comparison", "sought"), [("less", [5]), ("greater", [9]), ("within", [5, 9])])
def test_a_rule_looks_for_changes_in_its_own_direction(comparison: str, sought: list[int]) -> None:
    rule = condition({"percent_difference": 10}, comparison)
    result = compared(history([10.0] * 5 + [14.0] * 4 + [10.0] * 3), [change(5, 10, 14), change(9, 14, 10)], rule)
    assert list(result.by_rule["rule"]["loss"].late) == [("loss", f"run-{run:05}") for run in sought]
    assert [list(each.late) for each in result.findings] == [["rule"] if run in sought else [] for run in (5, 9)]


def test_runs_without_a_judged_value_are_no_runs() -> None:
    rows = [*history([10.0, 20.0, None, 20.0]), point(4, 99.0, status="failure"), point(5, float("nan"))]
    result = counts(compared([row for row in rows if row.value is not None], rule=LIMIT))
    assert (result["runs"], result["fail"], result["alerts"]) == (3, 2, 1)
    waiting = counts(compared(history([10.0] * 5), rule={**LIMIT, "wait_for_n_points_of_history": 3}))
    assert (waiting["runs"], waiting["share"]) == (2, 0)
    assert counts(compared(history([10.0]), rule=condition({"stddevs_from_mean": 3})))["share"] is None


@pytest.mark.parametrize(
    ("begins", "unmatched", "late"),
    [(2, 1, None), (3, 0, None), (4, 0, None), (5, 0, 0), (6, 0, 1), (19, 0, 14), (20, 1, None)],
)
def test_an_alert_belongs_to_a_change_from_two_runs_before_it_until_fifteen_runs_after(
    begins: int, unmatched: int, late: int | None
) -> None:
    values = [10.0] * 30
    values[begins] = 20.0
    values[begins + 1] = 20.0 if late is not None else 10.0
    found = counts(compared(history(values), [change(5, 10, 14), change(18, 14, 10)]))
    if begins >= 18:  # the next level has begun, and is better
        late = None
    assert (found["alerts"], found["changes"], found["runs_late"]) == (1, 1, late)
    assert found["unmatched"] == unmatched


def test_a_change_in_a_run_that_is_not_known_is_no_change_of_a_rule() -> None:
    found = compared(history([10.0] * 5 + [20.0] * 3), [change(99, 10, 20)])
    assert (counts(found)["changes"], counts(found)["unmatched"]) == (0, 1)
    assert found.findings[0].late == {}


def test_runs_are_compared_with_those_of_the_same_kind() -> None:
    rows = history([10.0, 11.5] * 12 + [13.0])
    nodes = {row.run_key: {"node_type": "large" if row.value == 10 else "small"} for row in rows}
    rule = {**condition({"percent_difference": 20}, "less"), "baseline": {"same": ["node_type"]}}
    assert counts(compared(rows, rule=rule, attributes=nodes))["fail"] == 0
    assert counts(compared(rows, rule=rule))["fail"] == 1


def test_the_total_and_the_choice_of_metrics() -> None:
    rows = [*history([10.0, 20.0]), *history([20.0, 10.0], metric="speed"), *history([1.0], metric="size")]
    rules = {"all": everywhere(LIMIT), "some": lambda name: Condition.model_validate(LIMIT) if name == "loss" else None}
    result = compare_rules(rules, rows, {}, test=TEST, metrics=["loss", "speed"])
    document = result.document()
    assert list(document) == ["rules", "metrics", "findings"]
    assert (document["rules"]["all"]["runs"], document["rules"]["all"]["fail"]) == (4, 2)
    assert {rule: list(metrics) for rule, metrics in document["metrics"].items()} == {
        "all": ["loss", "speed"], "some": ["loss"]
    }  # fmt: skip
    nothing = compare_rules({"none": lambda _: None}, rows, {}, test=TEST)
    assert nothing.document() == {"rules": {}, "metrics": {"none": {}}, "findings": []}
