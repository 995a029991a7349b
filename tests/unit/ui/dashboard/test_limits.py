"""How much of what a workload wrote a page shows, and what of others it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ml_metrics.core.model import Outcome
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.dashboard import one_run
from ml_metrics.ui.dashboard.page import without_folders
from ml_metrics.warehouse import RunRecord, Warehouse
from unit.ui.dashboard.sample_runs import Rights, csv_rows, recorded, run_of

MANY = {f"a{number:05}": 1.0 for number in range(600)}


def compared(test: str, other: str, days_ago: float = 0, metric: str = "loss_final") -> RunRecord:
    """A run whose metric failed beside the runs of another test."""
    run = recorded(test, days_ago, 9876.5, upper=4321.25, metric=metric)
    rule = f"less than mean + 4 sd of {other}"
    return replace(run, metrics=tuple(replace(row, rule=rule, reference=4242.5, spread=17.75) for row in run.metrics))


def test_a_test_with_many_metrics_has_pages_that_begin_with_the_broken_one(
    browser: TestClient, warehouse: Warehouse
) -> None:
    warehouse.load_all([recorded("t", day, 99.0, metric="zz_final", more=MANY) for day in range(2)])
    text = browser.get("/test?test=t").text
    assert text.count('<section class="chart') == 100
    assert text.index(">zz_final <b") < text.index(">a00000")
    assert "601 metrics: 100 are on this page" in text
    assert len(text) < 2_000_000
    other = browser.get("/test?test=t&page=2").text
    assert ">zz_final</h3>" not in other
    assert other.count('<section class="chart') == 100
    assert "zz_final = 99, must be below 11" in other, "the table of runs has the reason on each page"
    assert browser.get("/test?test=t&q=a00599").text.count('<section class="chart') == 1
    last = browser.get("/test?test=t&page=999999").text
    assert last.count('<section class="chart') == 1


def test_a_run_with_many_metrics_has_pages_that_begin_with_the_broken_one(
    browser: TestClient, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_run, "MAX_METRICS", 50)
    monkeypatch.setattr(one_run, "MAX_EXPORTED", 500)
    warehouse.load(recorded("t", 1, more={"gone": 1.0}))
    run = recorded("t", 0, 99.0, metric="zz_final", more=MANY)
    warehouse.load(run)
    page = f"/run?run={run.key}"
    text = browser.get(page).text
    assert text.count('<th scope="row">') == 50
    assert '<th scope="row">zz_final' in text
    assert "50 of 601 metrics" in text
    assert "Only in the good run before: gone, loss_final." in text
    second = browser.get(f"{page}&page=2").text
    assert '<th scope="row">zz_final' not in second
    assert "zz_final = 99, must be below 11" in second
    first, rest = (csv_rows(browser, f"{page}&format=csv&page={number}") for number in (1, 2))
    assert {row["metric"] for row in first} | {row["metric"] for row in rest} == {*MANY, "zz_final"}
    assert (len(first), len(rest)) == (500, 101)
    assert browser.get(f"{page}&format=json").json()["metrics_in_all"] == 601


def test_broken_metrics_of_one_test_do_not_fill_everybodys_page(browser: TestClient, warehouse: Warehouse) -> None:
    run = recorded("flood", 0, 99.0, more=MANY)
    metrics = tuple(replace(row, outcome=Outcome.FAIL, upper=0.5) for row in run.metrics)
    warehouse.load_all([replace(run, metrics=metrics), recorded("innocent", 0, 99.0)])
    found = warehouse.metrics.broken(run.job.timestamp.replace(hour=0), run.job.timestamp.replace(hour=23))
    assert len([row for row in found if row.test == "flood"]) == 25
    assert [row.metric for row in found if row.test == "innocent"] == ["loss_final"]
    text = browser.get("/").text
    assert "(+24 or more)" in text
    assert "loss_final = 99, must be below 11" in text


@pytest.mark.parametrize("more", ["", " of deployment prod", ", or off by less than 3 %"])
def test_numbers_of_a_test_that_the_reader_may_not_see_are_left_out(
    as_user: Callable[..., TestClient], warehouse: Warehouse, more: str
) -> None:
    warehouse.load_all([compared("mine", f"test secret-test{more}"), recorded("secret-test", 0)])
    run = run_of("mine", 0).key
    pages = ["/", "/test?test=mine", f"/run?run={run}", "/compare?tests=mine&metrics=*"]
    numbers = ("4321", "4,321", "4242", "4,242", "17.75")
    without = as_user(Rights(frozenset({"mine"})))
    for page in pages:
        for form in ("html", "json", "csv"):
            text = without.get(f"{page}{'&' if '?' in page else '?'}format={form}").text
            assert "mine" in text or "9876" in text
            assert [number for number in numbers if number in text] == [], (page, form)
    assert "with a test that you may not see" in without.get(f"/run?run={run}").text
    for rights in (Rights(frozenset({"mine", "secret-test"})), Rights()):
        assert "4242" in as_user(rights).get(f"/run?run={run}&format=csv").text


def test_the_envelope_from_another_tests_runs_is_left_out(
    as_user: Callable[..., TestClient], warehouse: Warehouse
) -> None:
    run = compared("mine", "test secret-test", metric="loss_curve")
    curve = '{"steps":[0,1],"values":[3.5,2.5],"better":"lower"}'
    band = '{"steps":[1],"low":[4321.25],"high":[4322.0]}'
    warehouse.load(replace(run, curves={"loss": (curve, band)}))
    assert "4321.25" not in as_user(Rights(frozenset({"mine"}))).get(f"/run?run={run.key}").text
    assert "4321.25" in as_user(Rights()).get(f"/run?run={run.key}").text


def test_the_folders_of_the_server_are_not_shown(
    browser: TestClient, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", f"{tmp_path}/runs")
    run = recorded("t", 0)
    warehouse.load(run)
    folder = Path(RunFolder.of(run_of("t", 0), f"{tmp_path}/runs").path)
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("x")
    text = browser.get(f"/run?run={run.key}").text
    assert "a.txt" in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/airflow/runs/t/1/x.csv: no column", "…/x.csv: no column"),
        ("cannot read '/a/b/c'", "cannot read '…/c'"),
        ("see https://host.example/a/b?c=/d", "see https://host.example/a/b?c=/d"),
        ("gs://bucket/folder/x and eval/loss 1/2", "gs://bucket/folder/x and eval/loss 1/2"),
    ],
)
def test_a_path_loses_its_folders(text: str, shown: str) -> None:
    assert without_folders(text) == shown
