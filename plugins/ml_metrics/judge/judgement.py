"""The judgement of one run, and its document."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any

from ml_metrics.config.conditions import NIGHT_RUNS, Confirm, RegressionTestConfig
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import BROKEN, Bounds, CurveBand, JobStatus, Outcome, Severity, Verdict, Watched
from ml_metrics.core.units import quantities
from ml_metrics.judge.history import EarlierRuns
from ml_metrics.store.run_folder import without_non_finite


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
        document: dict[str, Any] = {"kind": str(self.kind), "metric": self.metric, "message": self.message}
        return {**document, "reason": self.reason} if self.reason else document


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A verdict that alerts only if further runs confirm it: it is broken, or suspicious."""

    metric: str
    broken: int
    """How many runs in a row were out of bounds, or suspicious, with this one."""
    required: int
    """How many there must be for an alert."""
    rerun: bool = False
    """Whether the test is run again to confirm it. Otherwise the next run is awaited."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts and alerts of one run, and whether the run passed."""

    verdicts: tuple[Verdict, ...]
    alerts: tuple[Alert, ...]
    passed: bool
    """The workload succeeded and no verdict of severity `fail` is broken. Muted alerts do not change this."""
    unconfirmed: tuple[Unconfirmed, ...] = ()
    """The verdicts that do not alert yet."""
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
        """The judgement as JSON, as in `ml-metrics judge --json` and `verdicts.json`.

        It has `unconfirmed` only if some verdict does not alert yet, and `conditions` only if there are none.
        """
        document: dict[str, Any] = {
            "passed": self.passed,
            "verdicts": [verdict_document(verdict) for verdict in self.verdicts],
            "alerts": [alert.document() for alert in self.alerts],
        }
        if self.unconfirmed:
            document["unconfirmed"] = [asdict(each) for each in self.unconfirmed]
        return document if self.conditions else {**document, "conditions": False}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Judgement:
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


MAY_LACK = {"beyond", "borrowed"}
"""What of a level is only in the document where it says something."""


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON: null for an open bound, and without the optional keys that say nothing."""
    bounds, watched = verdict.bounds or Bounds(), verdict.watched
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
    optional = {
        "false_alarm_rate": verdict.false_alarm_rate,
        "non_finite": verdict.non_finite,
        "severity": None if verdict.severity is Severity.FAIL else str(verdict.severity),
        "implausible": verdict.implausible or None,
        "unit": verdict.unit or None,
        "condition": verdict.condition or None,
        "band": verdict.band and verdict.band.document(),
        "level": watched and {name: each for name, each in asdict(watched).items() if each or name not in MAY_LACK},
    }
    document |= {name: value for name, value in optional.items() if value is not None}
    plain: dict[str, Any] = without_non_finite(document)
    return plain


def _verdict(document: dict[str, Any]) -> Verdict:
    lower, upper = document["lower"], document["upper"]
    ends = -math.inf if lower is None else float(lower), math.inf if upper is None else float(upper)
    # a size beyond the range of numbers is null, as an open bound is
    level: dict[str, Any] = {
        name: math.inf if each is None else each for name, each in document.get("level", {}).items()
    }
    optional = ("reference", "spread", "false_alarm_rate", "non_finite")
    numbers = {"value": document["value"], **{name: document.get(name) for name in optional}}
    return Verdict(
        metric=document["metric"],
        outcome=Outcome(document["verdict"]),
        bounds=None if (lower, upper) == (None, None) else Bounds(*ends, inclusive=bool(document["inclusive"])),
        rule=document["rule"],
        baseline_points=int(document["baseline_points"]),
        reason=document["reason"],
        severity=Severity(document.get("severity", Severity.FAIL)),
        implausible=bool(document.get("implausible", False)),
        band=CurveBand.from_document(document["band"]) if "band" in document else None,
        unit=document.get("unit", ""),
        condition=document.get("condition", ""),
        watched=Watched(**level) if level else None,
        **{name: None if number is None else float(number) for name, number in numbers.items()},
    )


AT_ONCE = Confirm(runs=1)


def job_alerts(
    config: RegressionTestConfig, earlier: EarlierRuns, status: JobStatus, failure_reason: str | None
) -> tuple[Alert, ...]:
    """The alert about a job that failed. Its metrics do not alert."""
    failed_before = bool(earlier.runs) and earlier.runs[-1].job_status is not JobStatus.SUCCESS
    if not config.alert_for_failed_jobs or (config.alert_after_second_test_failure and not failed_before):
        return ()
    message = f"job_status was `{status}` for test `{earlier.test}`"
    return (Alert(AlertKind.JOB_STATUS, None, message, failure_reason or ""),)


def metric_alerts(
    config: RegressionTestConfig, verdicts: Iterable[Verdict], test: str, missing: Mapping[str, str]
) -> tuple[Alert, ...]:
    wanted = [verdict for verdict in verdicts if _alerts(verdict, config, missing)]
    warnings = [
        Alert(
            AlertKind.IMPLAUSIBLE,
            each.metric,
            f"Metric `{each.metric}` passed for test `{test}` and should be checked: it is {each.reason}",
        )
        for each in wanted
        if each.implausible
    ]
    return (*(_alert(verdict, config, test, missing) for verdict in wanted if verdict.broken), *warnings)


def confirmed(
    config: RegressionTestConfig, verdicts: Iterable[Verdict], earlier: EarlierRuns, missing: Mapping[str, str]
) -> tuple[tuple[Verdict, ...], tuple[Unconfirmed, ...]]:
    """The verdicts with their state of confirmation in the reason, and those that are not confirmed yet."""
    found: list[Verdict] = []
    unconfirmed: list[Unconfirmed] = []
    for verdict in verdicts:
        confirm = _confirmation(verdict, config) if verdict.broken and _alerts(verdict, config, missing) else AT_ONCE
        if confirm.runs == 1:
            found.append(verdict)
            continue
        judged = (row.outcome for row in reversed(earlier.rows(verdict.metric)) if row.outcome is not Outcome.SKIPPED)
        broken = 1 + sum(1 for _ in takewhile(BROKEN.__contains__, judged))
        if broken < confirm.runs:
            unconfirmed.append(Unconfirmed(verdict.metric, broken, confirm.runs, confirm.by == "rerun"))
            state = f"not yet confirmed: {broken} of {confirm.runs} runs"
        else:
            state = f"confirmed by {broken} runs"
        found.append(replace(verdict, reason=f"{verdict.reason}; {state}" if verdict.reason else state))
    return tuple(found), tuple(unconfirmed)


def suspicious(
    config: RegressionTestConfig, verdicts: Iterable[Verdict], earlier: EarlierRuns, missing: Mapping[str, str]
) -> tuple[Unconfirmed, ...]:
    """The metrics that passed, and that the next run, if it is as bad, may show to have a worse level.

    A run is run again for what is far beyond its level, and its rerun once more while all runs of the night are bad.
    """
    rerun, number, found = config.rerun, origin_of(earlier.run_id)[1], []
    for verdict in verdicts if rerun and number + 1 < NIGHT_RUNS else ():
        beyond = verdict.watched.beyond if verdict.watched else 0.0
        condition = config.condition_for(verdict.metric)
        if rerun is None or condition is None or verdict.outcome is not Outcome.PASS or not beyond:
            continue
        if not rerun.covers(verdict.metric) or not condition.decides_in(NIGHT_RUNS):
            continue
        if _alerts(verdict, config, missing) and (number or beyond >= rerun.beyond):
            found.append(Unconfirmed(verdict.metric, number + 1, NIGHT_RUNS, rerun=True))
    return tuple(found)


def _confirmation(verdict: Verdict, config: RegressionTestConfig) -> Confirm:
    """How a broken verdict is to be confirmed.

    `confirm` is about noise: a metric that is missing, not a number or not judged alerts at once.
    """
    second = Confirm(runs=2, by="next") if config.alert_after_second_test_failure else AT_ONCE
    condition, value, bounds = config.condition_for(verdict.metric), verdict.value, verdict.bounds
    given = condition.confirm if condition is not None else None
    if given is None or value is None or bounds is None or verdict.outcome is not Outcome.FAIL:
        return second
    if (near := given.within) is not None:
        bound = bounds.lower if value <= bounds.lower else bounds.upper
        width = max(near.absolute or 0.0, abs(bound) * (near.percent or 0.0) / 100)
        if abs(value - bound) > width + math.ulp(bound):  # a value at this distance is near, whatever the rounding
            return second
    return given if given.runs >= second.runs else second


def _alerts(verdict: Verdict, config: RegressionTestConfig, missing: Mapping[str, str]) -> bool:
    """Whether a verdict alerts. Settings can mute a condition, but not a required metric that is missing."""
    metric = verdict.metric
    if metric in missing or (config.requires(metric) and verdict.value is None):
        return True
    if config.condition_for(metric) is None and not config.requires(metric):
        return False
    return config.alert_for_oob_metrics and config.may_alert(metric)


def _alert(verdict: Verdict, config: RegressionTestConfig, test: str, missing: Mapping[str, str]) -> Alert:
    metric, reason = verdict.metric, verdict.reason
    if verdict.outcome is Outcome.MISSING or metric in missing:
        return Alert(AlertKind.MISSING, metric, f"Metric `{metric}` is missing for test `{test}`: {reason}")
    if verdict.outcome is Outcome.NON_FINITE:
        what = "is not a finite number" if verdict.value is None else "is made of values that are not all finite"
        return Alert(AlertKind.NON_FINITE, metric, f"Metric `{metric}` {what} for test `{test}`: {reason}")
    if verdict.value is None or verdict.bounds is None:
        return Alert(AlertKind.NOT_JUDGED, metric, f"Metric `{metric}` was not judged for test `{test}`: {reason}")
    condition = config.condition_for(metric)
    if condition is not None and condition.success_threshold.change_point is not None:
        return Alert(AlertKind.CHANGE_POINT, metric, f"Metric `{metric}` changed its level for test `{test}`: {reason}")
    lower, upper, value = quantities([verdict.bounds.lower, verdict.bounds.upper, verdict.value], verdict.unit)
    message = (
        f"Metric `{metric}` was out of bounds for test `{test}`. Bounds were ({lower}, {upper}) and value was {value}"
    )
    return Alert(AlertKind.OUT_OF_BOUNDS, metric, message)


_PATTERN = re.compile(r"confirm__(?P<origin>.+)__(?P<number>\d{1,2})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConfirmingRun:
    """A run to start. The run id is always the same for a run and the number of its confirmation."""

    run_id: str
    note: str
    """The reason, for the page of the run."""


def confirming_run(run_id: str, unconfirmed: Iterable[Unconfirmed]) -> ConfirmingRun | None:
    """The run that is to confirm the verdicts of a run, or None.

    A verdict that requires N runs starts at most N - 1 further ones, counted from the first run. A run that confirms
    another continues its count, so a chain ends even if each run breaks a different metric.
    """
    origin, number = origin_of(run_id)
    wanted = [each for each in unconfirmed if each.rerun and number + 1 < each.required]
    if not wanted:
        return None
    counts = ", ".join(f"{each.metric} ({each.broken} of {each.required} runs)" for each in wanted)
    note, space = f"Confirms {origin}: {counts}", 250 - len("confirm____00")  # the length of Airflow's column
    if len(origin) > space:
        digest = hashlib.sha256(origin.encode()).hexdigest()[:8]
        origin = f"{origin[: space - len(digest) - 1]}~{digest}"
    return ConfirmingRun(f"confirm__{origin}__{number + 1}", note)


def origin_of(run_id: str) -> tuple[str, int]:
    """The run that a run confirms, and the number of the confirmation; itself and 0 if it confirms none."""
    found = _PATTERN.fullmatch(run_id)
    return (found["origin"], int(found["number"])) if found else (run_id, 0)


def run_again(run_id: str | None) -> str:
    """The run that a run confirms; empty if it confirms none."""
    origin, number = origin_of(run_id) if run_id else ("", 0)
    return origin if number else ""
