"""What a run costs, from its documents to rows, messages and bills."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.alerts.cost_week import notice_of
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.report import cost_of_incident, report_of
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Workload
from ml_metrics.measure import Collected
from ml_metrics.measure.efficiency import NOT_A_TIME, bill_of, bills_by, cost_words, csv_rows, largest_cost, troubles_of
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Warehouse, open_warehouse

BOOK = """
title: made-up prices
defaults: {region: r, purchase: on_demand}
prices:
  - {accelerator: v5e, region: r, purchase: on_demand, currency: USD, per_chip_hour: 1.20, from: 2026-01-01}
"""
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(BOOK)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__PRICE_BOOK", str(path))
    return path


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as opened:
        yield opened


def definition(conditions: dict[str, Any] | None = None, **keys: Any) -> TestDefinition:
    return TestDefinition.model_validate(
        {
            "name": "t", "image": "i", "command": ["c"], "accelerator": "v5litepod-16", "owner": "team",
            "regression_test_config": {"metric_success_conditions": conditions or {}}, **keys,
        }
    )  # fmt: skip


def folder_of_run(
    tmp_path: Path, number: int, *, seconds: float = 3600, status: JobStatus = JobStatus.SUCCESS, test: str = "t"
) -> tuple[Run, RunFolder]:
    run = Run(test, test, f"r{number}", "local")
    folder = RunFolder(str(tmp_path / test / run.key))
    end = NOON + timedelta(hours=6 * number)
    folder.write("run", {"test_file": definition().model_dump(mode="json"), "params": {}})
    folder.write_workload(Workload(status, started_at=end - timedelta(seconds=seconds), ended_at=end))
    folder.write(
        "metrics", Collected((Metric("total_wall_time", seconds, "total_wall_time", "computed", unit="s"),)).document()
    )
    return run, folder


def play(test: TestDefinition, run: Run, folder: RunFolder, warehouse: Warehouse) -> RunState:
    steps.measure_efficiency(test, RunState(folder))
    steps.judge(test, run, RunState(folder), warehouse)
    steps.load(test, run, RunState(folder), warehouse)
    return RunState(folder)


@pytest.mark.usefixtures("prices")
def test_a_cost_is_a_row_with_unit_and_direction_and_is_judged(tmp_path: Path, warehouse: Warehouse) -> None:
    test = definition({"cost_usd": {"comparison": "less", "success_threshold": {"fixed_value": 19.0}}})
    run, folder = folder_of_run(tmp_path, 0)
    state = play(test, run, folder, warehouse)
    rows = {row.metric: row for row in warehouse.metrics.of_run(run.key)}
    assert (rows["cost_usd"].value, rows["cost_usd"].unit, rows["cost_usd"].better) == (19.2, "USD", "lower")
    assert rows["chip_hours"].value == 16
    assert rows["cost_usd"].outcome is Outcome.FAIL
    assert state.alerts["out_of_bounds:cost_usd"].startswith("Metric `cost_usd`")
    assert warehouse.runs.metadata(run.key)["cost.prices"].endswith("(v5e, on demand, in r; made-up prices)")


@pytest.mark.usefixtures("prices")
def test_default_judges_no_cost(tmp_path: Path, warehouse: Warehouse) -> None:
    run, folder = folder_of_run(tmp_path, 0)
    state = play(definition({"default": {"comparison": "less"}}), run, folder, warehouse)
    assert state.judgement is not None
    assert [verdict.metric for verdict in state.judgement.verdicts] == ["total_wall_time"]


@pytest.mark.parametrize(
    ("book", "why"),
    [
        (None, "there is no price book: set [ml_metrics] price_book"),
        (BOOK.replace("v5e", "h100"), "the price book 'made-up prices' has no price for v5e, on demand, in r"),
        (BOOK.replace("1.20", "-1.20"), "the price book cannot be used: "),
        ("", "the price book cannot be used: "),
    ],
)
def test_a_judged_cost_that_is_unknown_is_missing_with_its_reason(
    prices: Path, tmp_path: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, book: str | None, why: str
) -> None:
    if book is None:
        monkeypatch.delenv("AIRFLOW__ML_METRICS__PRICE_BOOK")
    else:
        prices.write_text(book)
    test = definition({"cost_usd": {"comparison": "less", "success_threshold": {"fixed_value": 19.0}}})
    run, folder = folder_of_run(tmp_path, 0)
    state = play(test, run, folder, warehouse)
    assert state.judgement is not None
    (verdict,) = state.judgement.verdicts
    assert (verdict.outcome, verdict.value) == (Outcome.MISSING, None)
    assert why in verdict.reason
    assert "cost_usd" not in {row.metric for row in warehouse.metrics.of_run(run.key) if row.value is not None}


@pytest.mark.usefixtures("prices")
def test_a_regression_states_what_it_costs_a_week(tmp_path: Path, warehouse: Warehouse) -> None:
    test = definition({"total_wall_time": {"comparison": "less", "success_threshold": {"percent_difference": 3}}})
    for number in range(13):
        run, folder = folder_of_run(tmp_path, number, seconds=3600 + number % 3 if number < 12 else 4500)
        state = play(test, run, folder, warehouse)
    assert state.judgement is not None
    (verdict,) = state.judgement.verdicts
    assert verdict.reference is not None
    dollars = (4500 - verdict.reference) * 16 * 13 * 1.2 / 3600
    factors = "15 min more a run, on 16 chips, for 13 runs in the last 7 days, at 1.2 USD a chip hour"
    text = f"{dollars:.2f} USD a week: {factors}"
    assert state.alerts["out_of_bounds:total_wall_time"].find(f"That costs {text}") > 0
    assert warehouse.runs.metadata(run.key)["cost.regression.total_wall_time"].startswith(text)
    report = report_of(
        test,
        run,
        state,
        MessageKind.BROKEN,
        state.alerts,
        warehouse=warehouse,
        dashboard_url="http://localhost/ml-metrics",
    )
    assert {fact.name: fact.value for fact in report.problems[0].facts}["costs"].startswith(text)
    assert not any("cost." in one for one in report.suspects)
    assert cost_of_incident(state, state.alerts).startswith(text)


@pytest.mark.parametrize(
    ("conditions", "book", "expected"),
    [
        ({}, None, "missing: there is no price book: set [ml_metrics] price_book"),
        ({}, BOOK.replace("v5e", "h100"), "missing: the price book 'made-up prices' has no price for v5e, on demand"),
        ({}, BOOK.replace("r,", "'',", 1), "missing: the price book cannot be used"),
        ({"cost_usd": {"comparison": "less", "success_threshold": {"fixed_value": 19.0}}}, BOOK, NOT_A_TIME),
    ],
    ids=["no book", "no price", "no usable book", "no time"],
)
def test_a_regression_of_unknown_cost_is_missing_with_its_reason(
    prices: Path, tmp_path: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch,
    conditions: dict[str, Any], book: str | None, expected: str,
) -> None:  # fmt: skip
    if book is None:
        monkeypatch.delenv("AIRFLOW__ML_METRICS__PRICE_BOOK")
    else:
        prices.write_text(book)
    slower = {"total_wall_time": {"comparison": "less", "success_threshold": {"percent_difference": 3}}}
    for number in range(4):
        run, folder = folder_of_run(tmp_path, number, seconds=3600 if number < 3 else 4500)
        state = play(definition(conditions or slower), run, folder, warehouse)
    assert cost_of_incident(state, state.alerts).startswith(expected)
    assert cost_of_incident(state, ["job_status:failure/ExitCode:1"]) == ""


def test_costs_of_incidents_in_few_words() -> None:
    """Metrics that show the same seconds are not added: the largest counts. An unknown cost is never a number."""
    texts = ["8.96 USD a week: 60 s more", "missing: no price", "1,200 JPY a week: 9 h more", "-3.00 USD a week: x"]
    assert largest_cost(texts) == texts[2]
    assert largest_cost(texts[1:2]) == texts[1]
    assert largest_cost([]) == ""
    words = [cost_words(text) for text in (*texts[:3], "")]
    assert words == ["costs 8.96 USD a week", "cost missing", "costs 1,200 JPY a week", ""]


def bills(tmp_path: Path, warehouse: Warehouse) -> None:
    for number in range(8):
        status = JobStatus.FAILURE if number == 3 else JobStatus.SUCCESS
        test = f"t{number % 3}"
        run, folder = folder_of_run(tmp_path, number, seconds=100 + 37 * number, status=status, test=test)
        ended = RunState(folder).workload.ended_at
        assert ended is not None
        if number % 4:
            document = {
                "found": True, "started_at": ended.timestamp() - 90, "ended_at": ended.timestamp(),
                "productive_seconds": 50.0 + number, "badput_seconds": {"stall": 7.1, "other": 1 / 3},
                "custom_badput_seconds": {"EVAL": 11.0}, "metrics": [], "files": 1,
            }  # fmt: skip
            folder.write("goodput", document)
        owner = {"t0": "vision", "t1": "vision", "t2": "speech"}[test]
        play(definition(name=test, owner=owner), run, folder, warehouse)


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("accelerator", ["v5litepod-16", "h100x8"])
def test_no_workload_writes_its_own_bill(tmp_path: Path, warehouse: Warehouse, accelerator: str) -> None:
    run, folder = folder_of_run(tmp_path, 0)
    names = ("cost_usd", "cost_stall_usd", "chip_hours")
    folder.write("metrics", Collected(tuple(Metric(name, 0.01, name, "perfzero") for name in names)).document())
    play(definition(accelerator=accelerator), run, folder, warehouse)
    rows = {row.metric: row.value for row in warehouse.metrics.of_run(run.key)}
    priced = accelerator == "v5litepod-16"
    assert rows == ({"chip_hours": 16.0, "cost_usd": 19.2} if priced else {"chip_hours": 8.0})
    efficiency = RunState(folder).efficiency
    assert efficiency is not None
    assert sum("under the name of its own cost" in warning for warning in efficiency.warnings) == 3


def test_an_expression_may_have_the_name_of_a_figure_and_is_judged_by_default() -> None:
    test = definition(
        {"default": {"comparison": "greater"}},
        metric_collection_config={
            "expressions": {"mfu": "400 / chips", "tokens_per_second_per_chip": "tokens_per_second / chips"}
        },
        efficiency={"flops_per_step": 1e15},
    )
    config = test.regression_test_config
    assert config.condition_for("mfu") is not None
    assert config.condition_for("hfu") is None


@pytest.mark.usefixtures("prices")
def test_the_sums_of_a_week_are_those_of_its_runs_to_the_cent(tmp_path: Path, warehouse: Warehouse) -> None:
    bills(tmp_path, warehouse)
    runs = warehouse.costs.between(NOON - timedelta(days=1), NOON + timedelta(days=6))
    stored = [
        row.value
        for run in runs
        for row in warehouse.metrics.of_run(run.run_key)
        if row.metric == "cost_usd" and row.value
    ]
    cents = sum(round(Decimal(str(value)) * 100) for value in stored)
    total = bill_of(runs)
    assert (total.runs, total.unknown, total.amounts) == (8, 0, {"USD": cents})
    assert sum(amounts["USD"] for amounts in total.reasons.values()) == cents
    for key in (lambda run: run.owner, lambda run: run.test):
        assert sum(bill.amounts["USD"] for bill in bills_by(runs, key).values()) == cents
    text = io.StringIO()
    csv.writer(text).writerows(csv_rows(runs))
    lines = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert sum(round(Decimal(line["cost"]) * 100) for line in lines) == cents
    failed = next(run for run in runs if run.job_status == "failure")
    assert total.reasons["failed runs"] == failed.amounts
    worst = troubles_of(runs, 100)
    spent = [name for name in total.reasons if name not in {"productive", "not measured"}]
    assert sum(one.units for one in worst) == sum(total.reasons[name]["USD"] for name in spent)


@pytest.mark.usefixtures("prices")
def test_the_message_of_a_week(tmp_path: Path, warehouse: Warehouse) -> None:
    bills(tmp_path, warehouse)
    since = datetime(2026, 11, 16, tzinfo=UTC)
    runs = warehouse.costs.between(since, since + timedelta(days=7))
    notice = notice_of(runs, [], since, since + timedelta(days=7), "http://localhost/ml-metrics")
    total = bill_of(runs)
    assert notice.headline == f"{total.cost} for {total.chip_hours:.4g} chip hours in the week to 2026-11-22"
    assert notice.sentences[0] == f"8 runs; the week before: - for 0 chip hours. That is more by {total.cost}."
    names = [item.name for item in notice.items]
    assert [name for name in names if name.startswith("trouble")] == [
        f"trouble: {one.test}" for one in troubles_of(runs)
    ]
    assert any(
        item.name == "trouble: t0" and item.value.endswith("for failed runs in 1 run (vision)") for item in notice.items
    )
    assert names.count("owner: vision") == 1
    assert notice.buttons[0].link == "http://localhost/ml-metrics/cost?since=2026-11-16&until=2026-11-22"
