"""The page to which the button of a message leads: one incident, with the chosen act ready to be confirmed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient

from ml_metrics.alerts import Act, page_of_incident
from ml_metrics.alerts.message import page_of_cause
from ml_metrics.warehouse import DEFINITION, IMPORT_ERROR, Warehouse
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, Rights, run_of
from unit.ui.dashboard.test_inbox import report

As = Callable[..., TestClient]
RUN = run_of(SHIFTED, 0).key
CHOSEN = re.compile(r'<section class="chosen".*?</section>', re.DOTALL)


def link(act: str = "", test: str = SHIFTED, run: str = RUN) -> str:
    return page_of_incident("", test, run, act)


def chosen(browser: TestClient, address: str) -> str:
    found = CHOSEN.findall(browser.get(address).text)
    return str(found[0]) if found else ""


def confirmed(browser: TestClient, address: str, **fields: str) -> Any:
    """Send the form of the chosen act as a browser does."""
    section = chosen(browser, address)
    action = re.search(r'action="(\w+)"', section)
    assert action
    given: dict[str, Any] = {}
    for name, value in re.findall(r'<(?:input type="hidden"|button) name="([^"]+)" value="([^"]*)"', section):
        given.setdefault(name, []).append(value)
    return browser.post(f"/{action[1]}", data={**given, **fields})


def test_a_link_changes_nothing(browser: TestClient, filled: Warehouse) -> None:
    before = filled.incidents.find_open(SHIFTED)
    for act in Act:
        assert f'<h3 id="chosen">{act.label}?</h3>' in browser.get(link(act)).text
    assert filled.incidents.find_open(SHIFTED) == before
    assert filled.acceptances.of_test(SHIFTED) == []


def test_a_level_is_accepted_from_the_first_run_that_has_the_metric(browser: TestClient, filled: Warehouse) -> None:
    filled.incidents.close(SHIFTED, RUN)
    second = run_of(SHIFTED, 1).key
    report(filled, SHIFTED, "job_status:failure", run="a run without metrics")
    report(filled, SHIFTED, "out_of_bounds:loss_final", run=second)
    answer = confirmed(browser, link(Act.ACCEPT, run=second), reason="a larger model")
    assert answer.headers["location"] == f"inbox?test={SHIFTED}&done=accepted"
    (row,) = filled.acceptances.of_test(SHIFTED)
    assert (row.run_key, row.accepted_by, row.reason) == (second, "vera", "a larger model")
    shown = browser.get(f"/{answer.headers['location']}").text
    assert "The new level is accepted" in shown
    assert shown.count('class="entry ') == 1


def test_an_answer_and_an_acknowledgement_are_stored(browser: TestClient, filled: Warehouse) -> None:
    assert confirmed(browser, link(Act.REGRESSION), reason="").headers["location"].endswith("done=assessed")
    assert (
        confirmed(browser, link(Act.ACKNOWLEDGE), note="a bad disk")
        .headers["location"]
        .startswith(f"inbox?test={SHIFTED}&done=acknowledged&at=")
    )
    found = filled.incidents.find_open(SHIFTED)
    assert found is not None
    assert (found.is_regression, found.acknowledged_by, found.note) == (True, "vera", "a bad disk")
    assert "vera has acknowledged the incident." in browser.get(link(Act.ACKNOWLEDGE)).text


def test_an_act_that_is_not_possible_says_why(browser: TestClient, filled: Warehouse) -> None:
    report(filled, FAILING, "job_status:failure/OOMKilled")
    report(filled, f"{DEFINITION}tf-gone", IMPORT_ERROR, run="x")
    cases = {
        link(Act.ACCEPT, STEADY): f"No incident of {STEADY} is open.",
        link(Act.ACCEPT, run=run_of(SHIFTED, 9).key): "The open incident does not name the run of your message",
        link(Act.ACCEPT, FAILING, run_of(FAILING, 0).key): "is about no value that could be accepted",
        link(Act.RERUN, "tf-gone", "x"): "about the file or the DAG of the test",
    }
    for address, reason in cases.items():
        page = browser.get(address)
        assert (page.status_code, reason in page.text, bool(CHOSEN.search(page.text))) == (200, True, False), address
    assert browser.get(link("delete")).status_code == 400


def test_a_test_with_a_broken_file_has_the_act_once(browser: TestClient, filled: Warehouse) -> None:
    report(filled, f"{DEFINITION}{SHIFTED}", IMPORT_ERROR, run="x")
    page = browser.get(link(Act.ACCEPT)).text
    assert len(CHOSEN.findall(page)) == 1
    assert "loss_final" in chosen(browser, link(Act.ACCEPT))


def test_rights_decide_what_is_offered(as_user: As, filled: Warehouse) -> None:
    assert filled.incidents.find_open(SHIFTED)
    reader = as_user(Rights(may_change=False))
    assert "You may not change the runs of this DAG." in chosen(reader, link(Act.ACCEPT))
    assert "<form" not in chosen(reader, link(Act.ACCEPT))
    stranger = as_user(Rights(frozenset({STEADY})))
    page = stranger.get(link(Act.ACCEPT)).text
    assert f"No incident of {SHIFTED} is open." in page
    assert "loss_final" not in page


def test_a_mail_about_a_cause_leads_to_its_entry(browser: TestClient, filled: Warehouse) -> None:
    cause = "new image: sha256:<2> & more"
    for test in (FAILING, STEADY):
        report(filled, test, "job_status:failure", cause=cause)
    found = browser.get(f"{page_of_cause('', cause)}&format=json").json()["incidents"]
    assert [one["cause"] for one in found] == [cause]
    assert len(browser.get(f"{page_of_cause('', '')}?format=json").json()["incidents"]) == 2
