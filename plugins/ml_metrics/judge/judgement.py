"""The judgement of one run, and its document."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ml_metrics.errors import UnreadableInputError
from ml_metrics.model import Bounds, CurveBand, Outcome, Severity, Verdict
from ml_metrics.run_folder import without_non_finite


class AlertKind(StrEnum):
    """The subject of an alert."""

    JOB_STATUS = "job_status"
    OUT_OF_BOUNDS = "out_of_bounds"
    CHANGE_POINT = "change_point"
    MISSING = "missing"
    NON_FINITE = "non_finite"
    IMPLAUSIBLE = "implausible"
    """A value passed and is implausibly good. It is a warning and does not fail the run."""
    NOT_JUDGED = "not_judged"
    """A condition could not be applied, so the metric has not passed."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One reason to notify a user."""

    kind: AlertKind
    metric: str | None
    """None if the alert is about the job itself."""
    message: str
    reason: str = ""
    """Why the job failed, if the cluster reported it. The reason for a metric is in its verdict."""

    def document(self) -> dict[str, Any]:
        """Return the alert as JSON, with `reason` only if there is one."""
        document: dict[str, Any] = {"kind": str(self.kind), "metric": self.metric, "message": self.message}
        return {**document, "reason": self.reason} if self.reason else document


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A broken verdict that alerts only if further runs confirm it."""

    metric: str
    broken: int
    """How many runs in a row were out of bounds, with this one."""
    required: int
    """How many there must be for an alert."""
    rerun: bool = False
    """Whether the test is run again to confirm it. Otherwise the next run is awaited."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts and alerts of one run, and whether the run passed."""

    verdicts: tuple[Verdict, ...]
    alerts: tuple[Alert, ...]
    passed: bool
    """The workload succeeded and no verdict of severity `fail` is broken. Muted alerts do not change this."""
    unconfirmed: tuple[Unconfirmed, ...] = ()
    """The broken verdicts that do not alert yet."""
    conditions: bool = True
    """Whether the test has any condition or required metric. A run without is recorded: it neither passes nor fails."""

    @property
    def outcome(self) -> Outcome:
        """The outcome of the whole run: `pass` only if something was checked and nothing is broken."""
        if not self.passed:
            return Outcome.FAIL
        found = {verdict.outcome for verdict in self.verdicts}
        nothing = Outcome.SKIPPED if self.conditions else Outcome.RECORDED
        return next((each for each in (Outcome.PASS, Outcome.INSUFFICIENT_DATA) if each in found), nothing)

    def document(self) -> dict[str, Any]:
        """Return the judgement as JSON, as in `ml-metrics judge --json` and `verdicts.json`.

        It has `unconfirmed` only if some verdict does not alert yet, and `conditions` only if there are none.
        """
        document: dict[str, Any] = {
            "passed": self.passed,
            "verdicts": [verdict_document(verdict) for verdict in self.verdicts],
            "alerts": [alert.document() for alert in self.alerts],
        }
        if self.unconfirmed:
            document["unconfirmed"] = [each.document() for each in self.unconfirmed]
        return document if self.conditions else {**document, "conditions": False}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Judgement:
        """Return the judgement from its document."""
        try:
            return cls(
                verdicts=tuple(_verdict(each) for each in document["verdicts"]),
                alerts=tuple(
                    Alert(AlertKind(each["kind"]), each["metric"], each["message"], each.get("reason", ""))
                    for each in document["alerts"]
                ),
                passed=bool(document["passed"]),
                unconfirmed=tuple(Unconfirmed(**each) for each in document.get("unconfirmed", ())),
                conditions=bool(document.get("conditions", True)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableInputError(f"not a judgement document: {type(error).__name__}: {error}") from error


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON: null for an open bound.

    It has `severity` only if that is not `fail`, `false_alarm_rate`, `unit`, `condition` and `non_finite` only if they
    are known, and `implausible` only if that is true, and `band` only for a curve.
    """
    bounds = verdict.bounds or Bounds()
    document: dict[str, Any] = {
        "metric": verdict.metric,
        "value": verdict.value,
        "lower": bounds.lower,
        "upper": bounds.upper,
        "inclusive": bounds.inclusive,
        "verdict": str(verdict.outcome),
        "rule": verdict.rule,
        "baseline_points": verdict.baseline_points,
        "reference": verdict.reference,
        "spread": verdict.spread,
        "reason": verdict.reason,
    }
    if verdict.false_alarm_rate is not None:
        document["false_alarm_rate"] = verdict.false_alarm_rate
    if verdict.non_finite is not None:
        document["non_finite"] = verdict.non_finite
    if verdict.severity is not Severity.FAIL:
        document["severity"] = str(verdict.severity)
    if verdict.implausible:
        document["implausible"] = True
    document |= {name: text for name in ("unit", "condition") if (text := getattr(verdict, name))}
    if verdict.band is not None:
        document["band"] = verdict.band.document()
    plain: dict[str, Any] = without_non_finite(document)
    return plain


def _verdict(document: dict[str, Any]) -> Verdict:
    lower, upper = document["lower"], document["upper"]
    bounds = Bounds(
        -math.inf if lower is None else float(lower),
        math.inf if upper is None else float(upper),
        inclusive=bool(document["inclusive"]),
    )
    return Verdict(
        metric=document["metric"],
        outcome=Outcome(document["verdict"]),
        value=_number_or_none(document["value"]),
        bounds=None if lower is None and upper is None else bounds,
        rule=document["rule"],
        baseline_points=int(document["baseline_points"]),
        reference=_number_or_none(document.get("reference")),
        spread=_number_or_none(document.get("spread")),
        false_alarm_rate=_number_or_none(document.get("false_alarm_rate")),
        non_finite=_number_or_none(document.get("non_finite")),
        reason=document["reason"],
        severity=Severity(document.get("severity", Severity.FAIL)),
        implausible=bool(document.get("implausible", False)),
        band=CurveBand.from_document(document["band"]) if "band" in document else None,
        unit=document.get("unit", ""),
        condition=document.get("condition", ""),
    )


def _number_or_none(value: Any) -> float | None:
    return None if value is None else float(value)
