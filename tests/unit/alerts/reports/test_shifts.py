"""A level shift that a rule waits for: the mail, the cause and the search start from the run before it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ml_metrics.airflow import warehouse
from ml_metrics.alerts.causes import cause_of
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.problems import problems_of
from ml_metrics.alerts.report import report_of
from ml_metrics.pipeline import RunState
from ml_metrics.pipeline.experiments import IMAGE, Span, versions_between
from ml_metrics.pipeline.experiments.versions import good_run
from simulated_runs import NAME, good, run_of, simulate, with_test

BEFORE, OLD, NEW = 12, "app@sha256:aaaa", "app@sha256:bbbb"
RULES = {
    "the level": {"comparison": "less"},
    "a bound": {"comparison": "less", "success_threshold": {"fixed_value": 0.1083}},
    "percent": {"comparison": "less", "success_threshold": {"percent_difference": 8}},
}


@pytest.mark.parametrize("rule", RULES)
def test_a_failure_is_explained_by_the_run_before_the_shift(rule: str) -> None:
    condition = {"metric_success_conditions": {"loss_final": RULES[rule]}}
    usual = replace(with_test(good(), regression_test_config=condition), image=OLD)
    shifted = replace(with_test(good(loss_final=0.1083), regression_test_config=condition), image=NEW)
    failed = 0
    for number in range(BEFORE + 6):
        folder = simulate(number, usual if number < BEFORE else shifted)
        state = RunState(folder)
        problems = problems_of(state).urgent
        if number < BEFORE or not problems:
            continue
        failed += 1
        with warehouse() as opened:
            report = report_of(shifted.test, run_of(number), state, MessageKind.BROKEN, problems,
                               warehouse=opened, dashboard_url="http://x")  # fmt: skip
            cause = cause_of(shifted.test, run_of(number), state, problems, warehouse=opened, log_lines=0)
            good_key = good_run(opened, Span(NAME, IMAGE, "loss_final", bad=run_of(number).key))
        first, last = run_of(BEFORE), run_of(BEFORE - 1)
        assert f"run {last.key[:8]} of" in report.first
        assert first.key[:8] in report.first or run_of(number).key == first.key
        assert f"image_digest: {OLD} → {NEW}" in report.first
        assert cause == f"new image: {NEW}"
        assert good_key == last.key
        headline = report.problems[0].sentence
        shown = re.search(r"([\d.]+) %", headline)
        assert shown is not None, headline
        assert float(shown[1]) >= 4, headline
    assert failed > 0


@pytest.mark.parametrize(("before", "cause"), [(OLD, f"new image: {NEW}"), ("", "")])
def test_an_image_is_new_only_where_that_of_the_run_before_is_known(before: str, cause: str) -> None:
    condition = {"metric_success_conditions": {"loss_final": RULES["a bound"]}}
    simulate(1, replace(with_test(good(), regression_test_config=condition), image=before))
    broken = replace(with_test(good(loss_final=0.2), regression_test_config=condition), image=NEW)
    state = RunState(simulate(2, broken))
    problems = problems_of(state).urgent
    with warehouse() as opened:
        assert cause_of(broken.test, run_of(2), state, problems, warehouse=opened, log_lines=0) == cause


def test_the_search_begins_before_the_runs_that_passed_at_the_new_level() -> None:
    condition = {"metric_success_conditions": {"loss_final": RULES["the level"]}}
    for number in range(BEFORE + 4):
        day = with_test(good(loss_final=0.1 if number < BEFORE else 0.12), regression_test_config=condition)
        simulate(number, replace(day, image=f"app@sha256:{number:064x}"))
    with warehouse() as opened:
        versions = versions_between(opened, Span(NAME, IMAGE, "loss_final")).versions
    assert versions[0] == f"app@sha256:{BEFORE - 1:064x}"
