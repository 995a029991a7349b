"""One bad rule makes one verdict, and never loses the rest."""

from __future__ import annotations

import pytest

from ml_metrics.config.regression import Condition
from ml_metrics.judge import AlertKind, judge_run, verdict
from ml_metrics.judge.bounds import Span
from ml_metrics.model import JobStatus, Metric, Outcome
from unit.judge.cases import TEST, condition, config, history, judged


def test_a_rule_that_breaks_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = verdict.span_of

    def breaks_for_seven(rule: Condition, baseline: list[float]) -> Span:
        if rule.success_threshold.fixed_value == 7:
            raise RuntimeError("a fault of ours")
        return whole(rule, baseline)

    monkeypatch.setattr(verdict, "span_of", breaks_for_seven)
    rules = {name: condition({"fixed_value": number}, "less") for name, number in (("a", 1), ("b", 7), ("c", 1))}
    judgement = judged(config(rules), {"a": 0.0, "b": 0.0, "c": 5.0})
    assert [str(one.outcome) for one in judgement.verdicts] == ["pass", "fail", "fail"]
    assert judgement.verdicts[1].reason == "the condition could not be applied: a fault of ours"
    assert [alert.kind for alert in judgement.alerts] == [AlertKind.NOT_JUDGED, AlertKind.OUT_OF_BOUNDS]
    assert judgement.alerts[0].message.startswith(f"Metric `b` was not judged for test `{TEST}`")


def test_history_that_overflows_fails_alone() -> None:
    rules = {"default": condition({"stddevs_from_mean": 4}, "less")}
    past = [*history([1.7e308, -1.7e308, 1.0]), *history([1.0, 2.0, 1.5], metric="acc")]
    judgement = judged(config(rules), {"loss": 1.0, "acc": 1.0}, past)
    assert [str(one.outcome) for one in judgement.verdicts] == ["fail", "pass"]
    assert "too large" in judgement.verdicts[0].reason


def test_two_metrics_of_one_name_are_no_metric() -> None:
    twins = [Metric("loss", 1.0, "loss", "final"), Metric("loss", 2.0, "loss", "final")]
    rule = config({"loss": condition({"fixed_value": 9}, "less")})
    judgement = judge_run(
        rule, twins, [], status=JobStatus.SUCCESS, run_key="r", now=history([1.0])[0].timestamp, test=TEST
    )
    (found,) = judgement.verdicts
    assert (found.outcome, found.value) == (Outcome.FAIL, None)
    assert "2 metrics of this name" in found.reason


def test_what_nobody_judges_may_be_there_twice() -> None:
    twins = [Metric("loss", 1.0, "loss", "final"), Metric("loss", 2.0, "loss", "final")]
    now = history([1.0])[0].timestamp
    assert judge_run(config(), twins, [], status=JobStatus.SUCCESS, run_key="r", now=now).passed


def test_nothing_to_judge_is_no_verdict() -> None:
    judgement = judged(config(), {"loss": 1.0})
    assert (judgement.verdicts, judgement.alerts, judgement.passed) == ((), (), True)
    assert judgement.outcome is Outcome.SKIPPED
