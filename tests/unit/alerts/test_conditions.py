"""What past runs show about the conditions of many tests is what a query for each test would show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.airflow import warehouse
from ml_metrics.alerts import heartbeat
from ml_metrics.alerts.digest import runs_of, silent_in
from ml_metrics.alerts.heartbeat import findings, newest
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.judge import HistoryNeeds, history_needs, misfits
from ml_metrics.warehouse import run_record

NOW = datetime(2026, 1, 19, 7, tzinfo=UTC)
RULE = {"comparison": "less", "success_threshold": {"fixed_value": 0.5}}
FAR = {"comparison": "less", "success_threshold": {"fixed_value": 5000.0}}


def a_test(name: str, **rules: Any) -> TestDefinition:
    config = {"metric_success_conditions": rules}
    return TestDefinition(name=name, image="i", command=("c",), schedule=None, regression_test_config=config)


def ran(test: str, runs: int, deployment: str, value: float = 1.0) -> None:
    with warehouse() as opened:
        there = opened.in_deployment(deployment)
        for number in range(runs):
            ended = NOW - timedelta(hours=number)
            metric = Metric("loss", value + number % 7 / 100, tag="loss", strategy="final")
            run = Run(test, test, f"{number}", deployment)
            there.load(run_record(run, Workload(JobStatus.SUCCESS, ended_at=ended), [metric], [], {}))


def test_they_are_those_of_a_query_for_each_test() -> None:
    with warehouse() as opened:
        own = opened.deployment
    for name, runs in (("healthy", 60), ("strict", 60), ("compared", 130), ("base", 70), ("short", 3)):
        ran(name, runs, own, value=2.0 if name == "compared" else 1.0)
    ran("base", 60, "prod", value=9.0)
    relative = {"comparison": "less", "success_threshold": {"stddevs_from_mean": 0.2}}
    tests = [
        a_test("healthy", loss=FAR, **{"gone_*": {**RULE, "optional": True}}),
        a_test("strict", loss=relative),
        a_test("compared", loss={**relative, "compare_to": {"test": "base"}}),
        a_test("short", loss={**relative, "compare_to": {"test": "base", "deployment": "prod"}}),
        a_test("never", loss=RULE),
    ]
    with warehouse() as opened:
        found = findings(tests, opened, 10)
        assert found.keys() == {"healthy", "strict", "compared", "short"}
        for test in tests[:-1]:
            config = test.regression_test_config
            needs = history_needs(config, test.name)
            needs = HistoryNeeds(needs.tests, 0, heartbeat.FIT_RUNS, None, needs.elsewhere)
            unfit = misfits(config, opened.metrics.history(needs), test=test.name)
            assert [one.text for one in found[test.name][1]] == [" ".join(one) for one in unfit]
            recent = HistoryNeeds((test.name,), 0, runs_of(test, 10), None)
            silent = silent_in(test, opened.metrics.history(recent), 10)
            assert [one.text for one in found[test.name][0]] == [f"{one.metric}: {one.reason}" for one in silent]
    assert found["strict"][1]
    assert found["compared"][1]
    assert found["healthy"][0]


def test_a_condition_that_needs_many_runs_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with warehouse() as opened:
        own = opened.deployment
    monkeypatch.setattr(heartbeat, "FIT_RUNS", 10)
    ran("deep", 45, own)
    test = a_test("deep", **{"gone_*": {**RULE, "optional": True}})
    with warehouse() as opened:
        [one], _ = findings([test], opened, 10)["deep"]
        assert one.more.endswith("in the last 45 runs")
        assert findings([test], opened, 0)["deep"][0] == []
    assert newest([], 3) == []
