from __future__ import annotations

from typing import Any

import pytest

from behaviour.story import Day, good, play, run_of, with_test
from ml_metrics.alerts.message import Occasion
from ml_metrics.connections import warehouse
from ml_metrics.reports import report_of, troubles_of
from ml_metrics.reports.report import DETAILED
from ml_metrics.warehouse.database import Database

MANY = {f"metric-{number}": 1.0 for number in range(300)}
CONFIG = {
    "metric_success_conditions": {"default": {"comparison": "greater", "success_threshold": {"fixed_value": 2.0}}}
}
DAY = with_test(Day("all of them bad", MANY), regression_test_config=CONFIG)


def test_a_run_that_breaks_hundreds_of_metrics_asks_the_warehouse_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    play(1, DAY)
    folder = play(2, DAY)
    asked: list[str] = []
    ask = Database.query

    def counted(self: Database, query: str, **parameters: Any) -> Any:
        asked.append(query)
        return ask(self, query, **parameters)

    monkeypatch.setattr(Database, "query", counted)
    with warehouse() as open_warehouse:
        sentences = troubles_of(folder).at_once
        report = report_of(
            DAY.test, run_of(2), folder, Occasion.BROKEN, sentences, warehouse=open_warehouse, dashboard_url="http://x"
        )
    assert len(report.troubles) == 300
    assert sum(trouble.picture is not None for trouble in report.troubles) == DETAILED
    assert all(trouble.facts for trouble in report.troubles)
    assert len(asked) <= 2 * DETAILED + 2


def test_links_to_airflow_only_where_airflow_is() -> None:
    folder = play(1, good())

    def links(dashboard_url: str) -> dict[str, str]:
        report = report_of(
            DAY.test, run_of(1), folder, Occasion.RECOVERED, {}, warehouse=None, dashboard_url=dashboard_url
        )
        return {fact.name: fact.link for fact in report.facts if fact.link}

    inside = links("https://airflow.example/ml-metrics")
    assert inside["tasks"] == (
        "https://airflow.example/dags/tf-mnist-example-cpu/runs/scheduled__2026-01-02T03%3A00%3A00%2B00%3A00"
    )
    assert "tasks" not in links("https://metrics.example")
