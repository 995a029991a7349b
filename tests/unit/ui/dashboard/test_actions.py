"""The actions of a page are stored with the user's name; forms of other sites are rejected."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from ml_metrics.ui.dashboard import access, actions
from ml_metrics.ui.dashboard.actions import start_run
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, run_of, submit

As = Callable[..., TestClient]
ACCEPT = {"test": SHIFTED, "metric": "loss_final", "run": run_of(SHIFTED, 3).key, "reason": "a larger model"}


def form(browser: TestClient, action: str, content: dict[str, str], **headers: str) -> Any:
    return submit(browser, action, content, f"/test?test={SHIFTED}", **headers)


def test_an_accepted_level_is_stored_with_the_name_and_shown(browser: TestClient, filled: Warehouse) -> None:
    answer = form(browser, "accept", ACCEPT)
    assert answer.status_code == 303
    (accepted,) = filled.acceptances.of_test(SHIFTED)
    assert (accepted.accepted_by, accepted.reason, accepted.run_key) == ("vera", "a larger model", ACCEPT["run"])
    text = browser.get(f"/{answer.headers['location']}").text
    assert "The new level is accepted" in text
    assert "accepted by vera: a larger model" in text
    assert form(browser, "accept", ACCEPT).headers["location"].endswith("done=accepted-before")
    assert len(filled.acceptances.of_test(SHIFTED)) == 1


def test_an_incident_is_acknowledged_once(browser: TestClient, filled: Warehouse) -> None:
    assert form(browser, "acknowledge", {"test": SHIFTED, "note": "a bad disk"}).status_code == 303
    incident = filled.incidents.all_open()[SHIFTED]
    assert (incident.acknowledged_by, incident.note) == ("vera", "a bad disk")
    assert "Acknowledged by vera: a bad disk." in browser.get(f"/test?test={SHIFTED}").text
    again = form(browser, "acknowledge", {"test": STEADY})
    assert again.headers["location"].endswith("done=nothing-to-acknowledge")


def test_a_quarantine_lasts_up_to_a_day_and_can_be_ended(browser: TestClient, filled: Warehouse) -> None:
    day = datetime.now(UTC).date() + timedelta(days=3)
    form(browser, "quarantine", {"test": FAILING, "until": day.isoformat(), "reason": "a bad disk"})
    row = filled.quarantines.newest()[FAILING]
    assert (row.by, row.reason, row.until.date()) == ("vera", "a bad disk", day + timedelta(days=1))
    assert f"quarantined until {day} by vera" in browser.get("/").text
    assert f"Quarantined until {day} by vera" in browser.get(f"/test?test={FAILING}").text
    answer = form(browser, "quarantine", {"test": FAILING, "until": "1970-01-02", "reason": "a new disk"})
    assert answer.headers["location"].endswith("done=released")
    assert not filled.quarantines.newest()[FAILING].holds(datetime.now(UTC))
    assert "quarantined until" not in browser.get("/").text


def undone(browser: TestClient, answer: Any) -> str:
    """Press the button of the page after an action."""
    page = browser.get(f"/{answer.headers['location']}").text
    fields = dict(re.findall(r'name="(page|test|at)" value="([^"]*)"', page.partition('action="undo"')[2]))
    answer = form(browser, "undo", fields)
    assert answer.status_code == 303, (fields, answer.text)
    return str(answer.headers["location"])


def test_what_was_done_to_several_tests_is_undone_at_once(browser: TestClient, filled: Warehouse) -> None:
    filled.incidents.report(FAILING, run_of(FAILING, 0).key, fingerprint="y", reasons=["job_status:failure"])
    both = {"test": [SHIFTED, FAILING], "page": "inbox"}
    answer = form(browser, "acknowledge", {**both, "note": "a typo"})
    assert {one.note for one in filled.incidents.all_open().values()} == {"a typo"}
    assert undone(browser, answer) == "inbox?done=undone"
    assert {one.acknowledged_by for one in filled.incidents.all_open().values()} == {None}
    undone(browser, form(browser, "assign", {**both, "person": "otto"}))
    assert {one.assigned_to for one in filled.incidents.all_open().values()} == {""}

    first, second = (f"{datetime.now(UTC).date() + timedelta(days=days)}" for days in (3, 9))
    form(browser, "quarantine", {**both, "until": first, "reason": "a bad disk"})
    answer = form(browser, "quarantine", {**both, "until": second, "reason": "a slip"})
    assert {f"{one.last_day}" for one in filled.quarantines.newest().values()} == {second}
    undone(browser, answer)
    assert {f"{one.last_day}" for one in filled.quarantines.newest().values()} == {first}


def test_nobody_undoes_what_another_user_or_an_older_hour_did(as_user: As, filled: Warehouse) -> None:
    at = filled.incidents.moment(SHIFTED)
    filled.incidents.acknowledge(SHIFTED, by="vera", at=at)
    fields = {"test": SHIFTED, "at": at.isoformat()}
    assert form(as_user(name="otto"), "undo", fields).headers["location"] == "inbox?done=nothing-to-undo"
    assert form(as_user(), "undo", {**fields, "at": (at - timedelta(hours=2)).isoformat()}).status_code == 400
    assert filled.incidents.all_open()[SHIFTED].acknowledged_by == "vera"


@pytest.mark.parametrize(
    ("action", "content", "status"),
    [
        ("accept", {**ACCEPT, "reason": "  "}, 400),
        ("accept", {**ACCEPT, "reason": "x" * 2000}, 400),
        ("accept", {**ACCEPT, "run": run_of(STEADY, 0).key}, 404),
        ("accept", {**ACCEPT, "run": "no-such-run"}, 404),
        ("accept", {"test": SHIFTED}, 400),
        ("acknowledge", {"test": "no-such-test"}, 404),
        ("quarantine", {"test": SHIFTED, "until": "soon", "reason": "x"}, 400),
        ("quarantine", {"test": SHIFTED, "until": "9999-12-31", "reason": "x"}, 400),
        ("quarantine", {"test": SHIFTED, "until": "2999-12-31", "reason": "x"}, 400),
        ("quarantine", {"test": SHIFTED, "until": "2026-01-01", "reason": ""}, 400),
    ],
)
def test_a_bad_form_changes_nothing(
    browser: TestClient, filled: Warehouse, action: str, content: dict[str, str], status: int
) -> None:
    assert form(browser, action, content).status_code == status
    assert filled.acceptances.of_test(SHIFTED) == []
    assert filled.quarantines.newest() == {}


def test_the_level_of_a_trial_is_not_accepted(browser: TestClient, filled: Warehouse) -> None:
    filled.database.change("UPDATE job_history SET trial = 'image' WHERE uuid = :run", run=ACCEPT["run"])
    answer = form(browser, "accept", ACCEPT)
    assert (answer.status_code, "is a trial" in answer.text) == (400, True)
    assert filled.acceptances.of_test(SHIFTED) == []


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://other.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}],
)
def test_a_form_of_another_site_is_rejected(browser: TestClient, filled: Warehouse, headers: dict[str, str]) -> None:
    assert form(browser, "accept", ACCEPT, **headers).status_code == 403
    assert filled.acceptances.of_test(SHIFTED) == []


@pytest.mark.parametrize(
    "token",
    ["", "x", "9999999999.0", access.VALID_SECONDS * "1", "é.ü", access.token("id of bob")],
    ids=["none", "nonsense", "unsigned", "long", "not-ascii", "of-another-user"],
)
def test_a_form_without_a_valid_token_is_rejected(browser: TestClient, filled: Warehouse, token: str) -> None:
    assert browser.post("/accept", data={**ACCEPT, "csrf_token": token}).status_code in {400, 403}
    assert filled.acceptances.of_test(SHIFTED) == []


def test_a_search_is_started_from_the_page_of_a_run(
    browser: TestClient, filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(actions, "start_run", lambda *run: started.append(run))
    run = filled.runs.newest(SHIFTED, 1)[0].uuid
    assert 'action="search"' in browser.get(f"/run?run={run}").text
    answer = form(browser, "search", {"test": SHIFTED, "metric": "loss_final", "run": run})
    assert (answer.status_code, answer.headers["location"][-14:]) == (303, "done=searching")
    asked = {"test": SHIFTED, "metric": "loss_final", "source": "history", "bad": run, "parameter": "image"}
    assert started == [("ml-metrics-bisect", asked, "vera")]
    assert form(browser, "search", {"test": STEADY, "metric": "loss_final", "run": run}).status_code == 404
    assert len(started) == 1


def test_a_paused_dag_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.models.dag.DagModel.get_current", lambda _: SimpleNamespace(is_paused=True))
    with pytest.raises(HTTPException, match="is paused") as refused:
        start_run("nightly", {}, "vera")
    assert refused.value.status_code == 409
