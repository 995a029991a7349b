from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.airflow import warehouse
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.problems import problems_of
from ml_metrics.alerts.report import MAX_DETAILED_METRICS, MAX_PROBLEMS, report_of, warnings_of
from ml_metrics.config.loading import load_file
from ml_metrics.pipeline import RunState
from ml_metrics.warehouse.database import Database
from simulated_runs import TEST, SimulatedRun, good, run_of, simulate, with_test

MANY = {f"metric-{number}": 1.0 for number in range(300)}
CONFIG = {
    "metric_success_conditions": {"default": {"comparison": "greater", "success_threshold": {"fixed_value": 2.0}}}
}
DAY = with_test(SimulatedRun("all of them bad", MANY), regression_test_config=CONFIG)


def test_a_run_that_fails_hundreds_of_metrics_takes_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(1, DAY)
    folder = simulate(2, DAY)
    queries: list[str] = []
    query_database = Database.query

    def counted(self: Database, query: str, **parameters: Any) -> Any:
        queries.append(query)
        return query_database(self, query, **parameters)

    monkeypatch.setattr(Database, "query", counted)
    with warehouse() as open_warehouse:
        sentences = problems_of(RunState(folder)).urgent
        report = report_of(
            DAY.test,
            run_of(2),
            RunState(folder),
            MessageKind.BROKEN,
            sentences,
            warehouse=open_warehouse,
            dashboard_url="http://x",
        )
    assert (len(report.problems), report.total, report.counted) == (MAX_PROBLEMS, 300, ("300 out of bounds",))
    assert sum(problem.picture is not None for problem in report.problems) == MAX_DETAILED_METRICS
    assert all("must be above 2" in problem.sentence for problem in report.problems)
    assert len(queries) <= 2 * MAX_DETAILED_METRICS + 2


def test_links_to_airflow_only_inside_airflow() -> None:
    state = RunState(simulate(1, good()))

    def links(url: str) -> dict[str, str]:
        report = report_of(DAY.test, run_of(1), state, MessageKind.RECOVERED, {}, warehouse=None, dashboard_url=url)
        return {fact.name: fact.link for fact in report.facts if fact.link}

    inside = links("https://airflow.example/ml-metrics")
    assert inside["tasks"] == (
        "https://airflow.example/dags/tf-mnist-example-cpu/runs/scheduled__2026-01-02T03%3A00%3A00%2B00%3A00"
    )
    assert "tasks" not in links("https://metrics.example")


def warnings_about(test: TestDefinition) -> list[str]:
    folder = simulate(1, with_test(good(), **test.model_dump(exclude_unset=True)))
    return list(warnings_of(test, RunState(folder)))


def test_a_normal_run_has_no_warnings() -> None:
    assert warnings_about(TEST) == []


def test_a_subset_with_a_metric_without_condition_is_a_warning() -> None:
    own = TEST.regression_test_config.model_dump(exclude_unset=True)
    config = {**own, "metric_subset_to_alert": ["step_time_final"]}
    test = TestDefinition.model_validate({**TEST.model_dump(exclude_unset=True), "regression_test_config": config})
    assert warnings_about(test) == [
        "step_time_final: metric_subset_to_alert names it, but no condition covers it: it can never alert"
    ]


def test_warnings_of_the_test_file_are_included_if_it_still_exists(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        "name: tf-mnist-example-cpu\nimage: i\ncommand: [c]\nmetric_collection_config: {write_to_bigquery: 'True'}\n"
    )
    (test,) = load_file(path).tests
    warnings = warnings_about(test)
    assert len(warnings) == 1
    assert "write_to_bigquery" in warnings[0]
    path.write_text("name: [")
    assert warnings_about(test) == []
    path.unlink()
    assert warnings_about(test) == []


SLOW_LIMIT = {
    "metric_success_conditions": {"seconds": {"comparison": "less", "success_threshold": {"fixed_value": 104}}}
}


@pytest.mark.parametrize(("node", "explained"), [("node-3", True), ("node-1", False)])
def test_a_run_that_failed_by_its_node(node: str, explained: bool) -> None:
    """Runs on one of four nodes take 5 % longer. The same value on another node is a change."""
    usual = with_test(good(), regression_test_config=SLOW_LIMIT)
    for number in range(1, 25):
        own = f"node-{number % 4}"
        simulate(number, replace(usual, metrics={"seconds": 105.0 if own == "node-3" else 100.0}, node=own))
    broken = replace(usual, metrics={"seconds": 105.5}, node=node)
    state = RunState(simulate(27, broken))
    with warehouse() as opened:
        sentences = problems_of(state).urgent
        report = report_of(
            broken.test, run_of(27), state, MessageKind.BROKEN, sentences, warehouse=opened, dashboard_url="http://x"
        )
    found = [sentence for sentence in report.suspects if "node, not change" in sentence]
    assert len(found) == explained
    assert all(sentence.startswith("seconds: node, not change: runs on node node-3 take ") for sentence in found)


def test_a_host_that_holds_the_others_up() -> None:
    """Two hosts recorded their steps, and one was slower: an alert about any problem names it."""
    folder = simulate(1, DAY)
    hosts = {"summary": "2 hosts, 9 steps: b is the slowest", "slow_host": "b"}
    folder.write("goodput", {"host_step_times": hosts, "metrics": []})
    state = RunState(folder)
    with warehouse() as opened:
        sentences = problems_of(state).urgent
        report = report_of(
            DAY.test, run_of(1), state, MessageKind.BROKEN, sentences, warehouse=opened, dashboard_url="http://x"
        )
    assert "One host holds the others up: 2 hosts, 9 steps: b is the slowest" in report.suspects
