from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from ml_metrics.model import Bounds, Outcome, Verdict
from ml_metrics.reports.metric import metric_facts
from ml_metrics.reports.past import MetricPast
from ml_metrics.reports.picture import picture_of
from ml_metrics.warehouse import MetricValue

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BAD = Verdict("loss", Outcome.FAIL, 2.0, Bounds(-math.inf, 1.5), "less than mean + 3 sd", 3, "2 is above 1.5")


def value(day: int, number: float | None, verdict: str = "pass", status: str = "success") -> MetricValue:
    return MetricValue(f"run {day}", NOON + timedelta(days=day), number, None, 1.5, status, verdict, "rule", 3, 1)


def facts(verdict: Verdict, *values: MetricValue, accepted: str = "") -> dict[str, str]:
    return {fact.name: fact.value for fact in metric_facts(verdict, MetricPast(values, accepted))}


def test_a_metric_s_change_is_told_beside_the_runs_that_its_rule_looked_at() -> None:
    told = facts(BAD, value(1, 100.0), value(2, 1.0), value(3, 1.0), value(4, 1.0))
    assert told == {
        "value": "2",
        "bounds": "(-inf, 1.5)",
        "rule": "less than mean + 3 sd",
        "because": "2 is above 1.5",
        "baseline": "1, the average of 3 good runs",
        "change": "+100 % from the baseline",
        "last runs": "100 1 1 1",
    }


def test_runs_that_were_not_good_are_in_no_baseline() -> None:
    told = facts(BAD, value(1, 1.0), value(2, 9.0, "fail"), value(3, 9.0, "skipped", "failure"), value(4, None))
    assert told["baseline"] == "1, the average of 1 good run"
    assert told["last runs"] == "1 9 9 none"


def test_a_baseline_begins_with_the_level_that_was_accepted_last() -> None:
    told = facts(BAD, value(1, 9.0), value(2, 1.0), value(3, 1.0), accepted="run 2")
    assert told["baseline"] == "1, the average of 2 good runs"


def test_a_metric_without_a_past_or_a_value_is_told_as_far_as_it_is_known() -> None:
    missing = Verdict("loss", Outcome.MISSING, None, None, "", 0, "the run did not produce it")
    assert facts(missing) == {"value": "none", "because": "the run did not produce it"}
    assert "change" not in facts(missing, value(1, 1.0))
    assert [fact.name for fact in metric_facts(BAD, None)] == ["value", "bounds", "rule", "because"]
    assert "change" not in facts(BAD, value(1, 0.0))


@pytest.mark.parametrize("number", [2.0, None, 1e300, -1e300, 5e-324])
def test_a_metric_s_runs_make_a_picture(number: float | None) -> None:
    past = MetricPast(tuple(value(day, number, "pass" if day % 2 else "of an older system") for day in range(50)))
    picture = picture_of(1, BAD, past, "this", NOON + timedelta(days=60))
    assert picture is not None
    assert picture.png.startswith(b"\x89PNG")
    assert (picture.name, picture.alt) == ("metric-1", "loss in its last 31 runs, with its bounds")


def test_a_picture_that_cannot_be_drawn_costs_no_mail(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ml_metrics.charts.as_png", lambda _: 1 / 0)
    assert picture_of(1, BAD, MetricPast((value(1, 1.0),)), "this", NOON) is None
    assert "could not be drawn" in caplog.text
