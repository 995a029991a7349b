"""What a run comes to, and that its document says all of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Bounds, CurveBand, Outcome, Severity, Verdict
from ml_metrics.judge import Alert, Judgement
from ml_metrics.judge.judgement import AlertKind, Unconfirmed, verdict_document

VERDICT = Verdict("loss", Outcome.PASS, 1.5, Bounds(1, 2), "within (1, 2)", reason="fine")
PLAIN = {
    "metric": "loss",
    "value": 1.5,
    "lower": 1,
    "upper": 2,
    "inclusive": False,
    "verdict": "pass",
    "rule": "within (1, 2)",
    "baseline_points": 0,
    "reference": None,
    "spread": None,
    "reason": "fine",
}


@pytest.mark.parametrize(
    ("outcomes", "passed", "conditions", "whole"),
    [
        (["pass", "skipped", "insufficient_data"], True, True, "pass"),
        (["insufficient_data", "pass"], True, True, "pass"),
        (["skipped", "insufficient_data"], True, True, "insufficient_data"),
        (["skipped"], True, True, "skipped"),
        ([], True, True, "skipped"),
        (["skipped"], True, False, "recorded"),
        ([], True, False, "recorded"),
        (["pass"], False, True, "fail"),
        ([], False, False, "fail"),
        (["fail", "pass"], True, True, "pass"),
    ],
)
def test_a_run_passes_only_if_something_was_checked_and_nothing_is_broken(
    outcomes: list[str], passed: bool, conditions: bool, whole: str
) -> None:
    verdicts = tuple(replace(VERDICT, outcome=Outcome(outcome)) for outcome in outcomes)
    assert Judgement(verdicts, (), passed, conditions=conditions).outcome == whole


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({}, {}),
        ({"bounds": None}, {"lower": None, "upper": None}),
        ({"bounds": Bounds(-math.inf, 2, inclusive=True)}, {"lower": None, "inclusive": True}),
        ({"value": None}, {"value": None}),
        ({"reference": 1.4, "spread": 0.0}, {"reference": 1.4, "spread": 0}),
        ({"baseline_points": 7}, {"baseline_points": 7}),
        ({"false_alarm_rate": 0.0}, {"false_alarm_rate": 0}),
        ({"non_finite": 0.0}, {"non_finite": 0}),
        ({"severity": Severity.WARN}, {"severity": "warn"}),
        ({"implausible": True}, {"implausible": True}),
        ({"unit": "ms", "condition": "lo*"}, {"unit": "ms", "condition": "lo*"}),
    ],
)
def test_the_document_of_a_verdict_has_what_is_known(change: dict[str, object], keys: dict[str, object]) -> None:
    verdict = replace(VERDICT, **change)
    assert verdict_document(verdict) == PLAIN | keys
    judgement = Judgement((verdict,), (), passed=True)
    assert Judgement.from_document(json.loads(json.dumps(judgement.document()))) == judgement


def test_the_document_of_a_curve_has_its_band() -> None:
    verdict = replace(VERDICT, band=CurveBand((1, 2), (0.5, 0.6), (1.5, 1.6)))
    assert set(verdict_document(verdict)) - set(PLAIN) == {"band"}
    judgement = Judgement((verdict,), (), passed=True)
    assert Judgement.from_document(json.loads(json.dumps(judgement.document()))) == judgement


def test_the_document_of_a_judgement() -> None:
    alerts = (Alert(AlertKind.JOB_STATUS, None, "failed", "OOMKilled"), Alert(AlertKind.MISSING, "loss", "no loss"))
    whole = Judgement((), alerts, False, (Unconfirmed("acc", 1, 3, rerun=True),), conditions=False)
    assert whole.document() == {
        "passed": False,
        "verdicts": [],
        "alerts": [
            {"kind": "job_status", "metric": None, "message": "failed", "reason": "OOMKilled"},
            {"kind": "missing", "metric": "loss", "message": "no loss"},
        ],
        "unconfirmed": [{"metric": "acc", "broken": 1, "required": 3, "rerun": True}],
        "conditions": False,
    }
    assert Judgement.from_document(json.loads(json.dumps(whole.document()))) == whole
    assert Judgement((), (), True).document() == {"passed": True, "verdicts": [], "alerts": []}


def test_an_older_document_lacks_what_is_new() -> None:
    old = {key: value for key, value in PLAIN.items() if key not in {"reference", "spread"}}
    judgement = Judgement.from_document({"passed": True, "verdicts": [old], "alerts": []})
    assert judgement == Judgement((VERDICT,), (), passed=True)


@pytest.mark.parametrize(
    "document", [{}, {"passed": True, "verdicts": [{}], "alerts": []}, {"passed": 1, "verdicts": 3}]
)
def test_no_other_document_is_taken_for_a_judgement(document: dict[str, object]) -> None:
    with pytest.raises(UnreadableInputError, match="not a judgement document"):
        Judgement.from_document(document)
