"""The inbox: one entry for each cause, the most urgent first, and what a person on duty does there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from ml_metrics.ui.dashboard import access, actions
from ml_metrics.warehouse import DEFINITION, IMPORT_ERROR, Warehouse
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, Rights, csv_rows, recorded, run_of, submit

As = Callable[..., TestClient]
CAUSE = "new image: sha256:<2>"


def incidents(browser: TestClient, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.get(f"/inbox?format=json{query}").json()["incidents"]
    return found


def report(warehouse: Warehouse, test: str, *reasons: str, run: str = "", cause: str = "", cost: str = "") -> None:
    key = run or run_of(test, 0).key
    warehouse.incidents.report(test, key, fingerprint=key, reasons=reasons, cause=cause, cost=cost)


def post(browser: TestClient, action: str, content: dict[str, Any]) -> Any:
    return submit(browser, action, {"page": "inbox", **content})


def post_with(browser: TestClient, action: str, content: dict[str, Any]) -> int:
    """Return the status of a form whose token is valid, of a user whose page has no forms."""
    return browser.post(f"/{action}", data={"csrf_token": access.token("id of vera"), **content}).status_code


def test_the_most_urgent_incident_is_first(browser: TestClient, filled: Warehouse) -> None:
    report(filled, FAILING, "job_status:failure/OOMKilled")
    report(filled, STEADY, "out_of_bounds:loss_final")
    report(filled, f"{DEFINITION}tf-gone", IMPORT_ERROR, run="x")
    filled.incidents.acknowledge(FAILING, by="vera", note="a larger node")
    found = {one["tests"][0]["test"]: one["tests"][0] for one in incidents(browser)}
    # broken files, then new ones by letter, acknowledged ones, and those whose newest run is good
    assert list(found) == ["tf-gone", SHIFTED, FAILING, STEADY]
    assert [one["state"] for one in found.values()] == ["new", "new", "acknowledged", "watching"]
    assert found[SHIFTED]["reason"] == "loss_final = 14, must be below 11"
    assert found[SHIFTED]["owner"] == "speech-team"
    assert found[FAILING]["reason"] == "failure: OOMKilled"
    assert found["tf-gone"]["reason"] == "Airflow cannot import its DAG file"
    assert (found["tf-gone"]["first_bad_run"], found[SHIFTED]["first_bad_run"]) == (None, run_of(SHIFTED, 0).key)
    assert [row["test"] for row in csv_rows(browser, "/inbox?format=csv")] == list(found)


def test_one_cause_is_one_entry(browser: TestClient, filled: Warehouse) -> None:
    report(filled, FAILING, "job_status:failure/OOMKilled", cause=CAUSE)
    report(filled, STEADY, "out_of_bounds:loss_final", cause=CAUSE)
    causes = [(one["cause"], [each["test"] for each in one["tests"]]) for one in incidents(browser)]
    assert causes == [(CAUSE, [FAILING, STEADY]), ("", [SHIFTED])]
    page = browser.get("/inbox").text
    assert "new image: sha256:&lt;2&gt;" in page
    assert "<small>+1</small>" in page


def test_the_most_expensive_incident_is_first_where_that_is_asked_for(browser: TestClient, filled: Warehouse) -> None:
    report(filled, f"{DEFINITION}tf-gone", IMPORT_ERROR, run="x")
    slow = "out_of_bounds:total_wall_time"
    report(filled, FAILING, slow, cause=CAUSE, cost="1,008.96 USD a week: 60 s more a run, on <16> chips")
    report(filled, STEADY, slow, cause=CAUSE, cost="0.05 USD a week: 1 s more a run")
    report(filled, f"{DEFINITION}{STEADY}", slow, run="y", cause=CAUSE, cost="missing: there is no price book")
    report(filled, SHIFTED, slow, run="z", cost="7.00 USD a week: 4 s more a run")
    assert [one["cost_a_week"] for one in incidents(browser)] == [{"USD": "1009.01"}, {}, {"USD": "7.00"}]
    first, second, last = incidents(browser, "&order=cost")
    assert [one["cost_a_week"] for one in (first, second, last)] == [{"USD": "1009.01"}, {"USD": "7.00"}, {}]
    assert {one["cost"] and one["cost"].split(":")[0] for one in first["tests"]} == {
        "1,008.96 USD a week", "0.05 USD a week", "missing",
    }  # fmt: skip
    page = browser.get("/inbox?order=cost").text
    assert page.index("costs 1,009.01 USD a week, without 1 test of unknown cost") < page.index("costs 7.00 USD a week")
    assert csv_rows(browser, "/inbox?format=csv&order=cost")[1]["cost"].endswith("on <16> chips")
    assert browser.get("/inbox?order=money").status_code == 400


def test_all_tests_of_a_cause_are_acknowledged_at_once(browser: TestClient, filled: Warehouse) -> None:
    for test in (FAILING, STEADY):
        report(filled, test, "job_status:failure", cause=CAUSE)
    report(filled, f"{DEFINITION}{STEADY}", IMPORT_ERROR, run="x")
    answer = post(browser, "acknowledge", {"test": [FAILING, STEADY], "note": "rolled back"})
    assert (answer.status_code, answer.headers["location"].partition("&")[0]) == (303, "inbox?done=acknowledged")
    by = {name: one.acknowledged_by for name, one in filled.incidents.all_open().items()}
    assert by == {FAILING: "vera", STEADY: "vera", f"{DEFINITION}{STEADY}": "vera", SHIFTED: None}
    assert "acknowledged by vera: rolled back" in browser.get("/inbox").text


def test_all_tests_of_a_cause_are_assigned_at_once(browser: TestClient, filled: Warehouse) -> None:
    for test in (FAILING, STEADY):
        report(filled, test, "job_status:failure", cause=CAUSE)
    answer = post(browser, "assign", {"test": [FAILING, STEADY], "person": " otto "})
    assert answer.headers["location"].startswith("inbox?done=assigned&at=")
    assert [(one["state"], one["tests"][0]["assigned_to"]) for one in incidents(browser, "&q=OTTO")] == [
        ("assigned", "otto")
    ]
    assert {row["assigned_to"] for row in csv_rows(browser, "/inbox?format=csv&state=assigned")} == {"otto"}
    page = browser.get("/inbox").text
    assert "assigned to <strong>otto</strong> by vera" in page
    assert "Acknowledge all" in page
    assert post(browser, "assign", {"test": [FAILING, STEADY]}).headers["location"].endswith("done=unassigned")
    assert {one["state"] for one in incidents(browser)} == {"new"}
    assert post(browser, "assign", {"test": "pt-steady-2", "person": "otto"}).status_code == 404


def test_what_is_no_regression_is_closed_and_counted(browser: TestClient, filled: Warehouse) -> None:
    report(filled, FAILING, "change_point:loss_final")
    report(filled, STEADY, "out_of_bounds:loss_final")
    report(filled, f"{DEFINITION}tf-gone", IMPORT_ERROR, run="x")  # which is about no run
    answer = {"test": FAILING, "incident": run_of(FAILING, 0).key, "answer": "no-regression"}
    assert post(browser, "assess", answer).status_code == 400  # a reason is required
    assert set(filled.incidents.all_open()) == {SHIFTED, FAILING, STEADY, f"{DEFINITION}tf-gone"}
    found = post(browser, "assess", {**answer, "reason": "a slow disk"})
    assert found.headers["location"] == "inbox?done=closed-with-levels"
    assert FAILING not in filled.incidents.all_open()
    assert [(one.metric, one.accepted_by) for one in filled.acceptances.of_test(FAILING)] == [("loss_final", "vera")]
    regression = {"test": STEADY, "incident": run_of(STEADY, 0).key, "answer": "regression"}
    assert post(browser, "assess", regression).headers["location"] == "inbox?done=assessed"
    assert STEADY in filled.incidents.all_open()
    counted = {"days": 30, "regressions": 1, "false_alarms": 1, "undecided": 1, "share": 0.5}
    assert browser.get("/inbox?format=json").json()["precision"] == counted
    page = browser.get("/inbox").text
    assert re.search(r"<strong>1 of 2</strong> assessed were regressions \(50 %\), 1 not assessed", page)
    assert "no regression, says vera: a slow disk" in page
    # a user may think again; the incident stays closed
    assert post(browser, "assess", {**answer, "answer": "regression"}).status_code == 303
    assert browser.get("/inbox?format=json").json()["precision"]["share"] == 1.0
    assert FAILING not in filled.incidents.all_open()
    for wrong in ({"incident": "another"}, {"answer": "perhaps"}, {"test": "no-such-test"}):
        assert post(browser, "assess", {**regression, **wrong}).status_code in {400, 404}


def test_a_test_is_run_again(browser: TestClient, filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    report(filled, FAILING, "job_status:failure/OOMKilled")
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(actions, "start_run", lambda *run: started.append(run))
    assert f"Run {FAILING} again" in browser.get("/inbox").text
    assert post(browser, "rerun", {"test": FAILING}).headers["location"] == "inbox?done=started"
    assert started == [(FAILING, {}, "vera")]
    assert post(browser, "rerun", {"test": "no-such-test"}).status_code == 404


def test_an_issue_is_opened_with_what_is_known(
    browser: TestClient, filled: Warehouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert "open an issue" not in browser.get("/inbox").text
    monkeypatch.setenv("AIRFLOW__ML_METRICS__ISSUE_URL", "javascript:{title}")
    assert "open an issue" not in browser.get("/inbox").text
    assert "issue_url: 'javascript:{title}' is not an address with a title" in caplog.text
    monkeypatch.setenv("AIRFLOW__ML_METRICS__ISSUE_URL", "https://git.example/new?title={title}&body={body}")
    report(filled, "{body}", "a & b #1", run=run_of(SHIFTED, 0).key)
    links = re.findall(r'href="(https://git.example[^"]*)"', browser.get("/inbox").text)
    (query,) = [parse_qs(urlsplit(unescape(link)).query) for link in links]
    assert query["title"] == [f"{SHIFTED}: loss_final = 14, must be below 11"]
    (body,) = query["body"]
    assert f"First bad run: http://localhost:8080/ml-metrics/run?run={run_of(SHIFTED, 0).key}" in body
    assert "Owner: speech-team" in body


def test_nothing_is_acknowledged_if_one_test_is_unknown(browser: TestClient, filled: Warehouse) -> None:
    assert post(browser, "acknowledge", {"test": [SHIFTED, "no-such-test"]}).status_code == 404
    assert filled.incidents.all_open()[SHIFTED].acknowledged_by is None
    assert post(browser, "acknowledge", {"test": []}).status_code == 400
    assert post(browser, "acknowledge", {"test": SHIFTED, "page": "https://other.example"}).status_code == 400


def test_a_level_is_accepted_from_the_first_bad_run(browser: TestClient, filled: Warehouse) -> None:
    filled.incidents.close(SHIFTED, run_of(SHIFTED, 0).key)
    for day in (3, 0):
        report(filled, SHIFTED, "out_of_bounds:loss_final", f"out_of_bounds:metric {day}", run=run_of(SHIFTED, day).key)
    run = re.search(r'name="run" value="([^"]+)"', browser.get("/inbox").text)
    assert run
    answer = post(browser, "accept", {"test": SHIFTED, "metric": "loss_final", "run": run.group(1), "reason": "x"})
    assert answer.headers["location"] == "inbox?done=accepted"
    assert [one.run_key for one in filled.acceptances.of_test(SHIFTED)] == [run_of(SHIFTED, 3).key]


@pytest.mark.parametrize(
    ("query", "tests"),
    [
        ("&q=SHIFTED", [SHIFTED]),
        ("&q=oomkilled", [FAILING]),
        ("&owner=speech-team", [SHIFTED]),
        ("&state=watching", []),
        ("&state=new", [FAILING, SHIFTED]),
    ],
)
def test_filters(browser: TestClient, filled: Warehouse, query: str, tests: list[str]) -> None:
    report(filled, FAILING, "job_status:failure/OOMKilled")
    assert [one["tests"][0]["test"] for one in incidents(browser, query)] == tests


def test_only_tests_that_the_user_may_read_and_change(as_user: As, filled: Warehouse) -> None:
    report(filled, FAILING, "job_status:failure/OOMKilled")
    filled.incidents.close(SHIFTED, run_of(SHIFTED, 0).key)
    browser = as_user(Rights(frozenset({FAILING}), may_change=False))
    assert [one["tests"][0]["test"] for one in incidents(browser)] == [FAILING]
    page = browser.get("/inbox").text
    assert SHIFTED not in page
    assert "<button aria-keyshortcuts" not in page
    assert not re.search("Quarantine|Assign|Not a regression|Run .* again", page)
    for action, content in (("assign", {"person": "otto"}), ("assess", {"incident": "x", "answer": "regression"})):
        assert browser.post(f"/{action}", data={"test": FAILING, **content}).status_code == 403
        assert post_with(browser, action, {"test": FAILING, **content}) == 403
    assert post_with(browser, "rerun", {"test": FAILING}) == 403


def test_fixed_incidents(browser: TestClient, filled: Warehouse) -> None:
    filled.incidents.close(SHIFTED, run_of(SHIFTED, 0).key)
    page = browser.get("/inbox").text
    assert "No incident is open." in page
    assert re.search(rf"Fixed in the last seven days.*{SHIFTED}", page, re.DOTALL)


def test_a_row_states_how_far_a_value_is_from_its_reference(browser: TestClient, warehouse: Warehouse) -> None:
    run = recorded(SHIFTED, 0, 14.0)
    (row,) = run.metrics
    warehouse.load(replace(run, metrics=(replace(row, reference=10.0),)))
    report(warehouse, SHIFTED, "out_of_bounds:loss_final")
    ((shown,),) = [one["tests"] for one in incidents(browser)]
    assert (shown["metric"], shown["value"], shown["percent"]) == ("loss_final", 14.0, pytest.approx(40.0))
    assert shown["shown"] == {"what": "loss_final 14", "change": "+40 %"}
    assert shown["reason"] == "loss_final = 14, must be below 11, +40 % against 10"
    assert '<span class="r change">+40 %</span>' in browser.get("/inbox").text


def test_a_cause_of_a_night_has_the_whole_row(browser: TestClient, filled: Warehouse) -> None:
    report(filled, FAILING, "job_status:failure/OOMKilled", cause=CAUSE)
    report(filled, STEADY, "out_of_bounds:loss_final", cause=CAUSE)
    page = browser.get("/night").text
    assert '<th scope="rowgroup" colspan="2">Moved together <small>1</small></th>' in page
    assert '<td class="why" colspan="2">2 tests: ' in page
    assert not re.search(r"<th[^>]*></th>", page)
