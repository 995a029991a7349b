"""Trials on the pages: only where the runs of a test are listed, and marked there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from ml_metrics.warehouse import RunRecord, Warehouse
from unit.ui.dashboard.sample_runs import STEADY, csv_rows, recorded, run_of

TRIED = 400.0
KEY = run_of(STEADY, -0.01).key
MARK = '<span class="trial">trial by &lt;b&gt;alice: image, size</span>'


def as_trial(record: RunRecord, started_by: str = "<b>alice") -> RunRecord:
    job = replace(record.job, trial="image, size", started_by=started_by)
    return replace(record, job=job, metrics=tuple(replace(row, trial=job.trial) for row in record.metrics))


@pytest.fixture
def tried(filled: Warehouse) -> Warehouse:
    """The sample runs, and a trial of the steady test that is newer than its regular runs and out of bounds."""
    filled.load(as_trial(recorded(STEADY, -0.01, TRIED, more={"only_in_trials": 1.0})))
    return filled


@pytest.mark.usefixtures("tried")
def test_the_page_of_a_test_lists_its_trial_with_a_mark(shown: TestClient) -> None:
    text = shown.get(f"/test?test={STEADY}").text
    assert MARK in text
    assert "only_in_trials" not in text
    document = shown.get(f"/test?test={STEADY}&format=json").json()
    (metric,) = document["metrics"]
    assert metric["metric"] == "loss_final"
    assert KEY not in {point["run_key"] for point in metric["points"]}
    for page in ("/", f"/compare?tests={STEADY}&metrics=loss_final"):
        assert KEY not in shown.get(page).text
    marks = {run["uuid"]: (run["trial"], run["started_by"]) for run in document["runs"]}
    assert marks.pop(KEY) == ("image, size", "<b>alice")
    assert set(marks.values()) == {(None, None)}


@pytest.mark.usefixtures("tried")
def test_the_csv_of_a_test_names_what_was_changed(shown: TestClient) -> None:
    rows = csv_rows(shown, f"/test?test={STEADY}&format=csv")
    found = {(row["metric"], row["trial"], row["started_by"]) for row in rows if row["run"] == KEY}
    assert found == {("loss_final", "image, size", "<b>alice"), ("only_in_trials", "image, size", "<b>alice")}
    assert {row["trial"] for row in rows if row["run"] != KEY} == {""}


@pytest.mark.usefixtures("tried")
def test_the_page_of_a_trial_states_what_it_is(shown: TestClient) -> None:
    text = shown.get(f"/run?run={KEY}").text
    assert MARK in text
    assert "no run is compared with it" in text
    assert "<dt>started by</dt><dd>&lt;b&gt;alice</dd>" in text
    document = shown.get(f"/run?run={KEY}&format=json").json()
    assert document["run"]["trial"] == "image, size"
    assert document["last_good_run"] is not None
    assert document["last_good_run"] != KEY


def test_a_test_that_was_only_tried_has_a_page(shown: TestClient, filled: Warehouse) -> None:
    filled.load(as_trial(recorded("only-tried", 1)))
    page = shown.get("/test?test=only-tried")
    assert page.status_code == 200
    assert MARK in page.text
    assert "only-tried" not in shown.get("/").text
