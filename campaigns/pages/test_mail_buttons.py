"""The button of a mail, in a real browser: the login, the incident, and the chosen act, by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from airflow_home import Home
from browser import PAGE_MILLISECONDS, check_look, press_until
from ml_metrics.alerts import Act
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.report import buttons_of
from standalone_airflow import Standalone, api_server, password
from unit.alerts.reports import REPORT
from unit.ui.dashboard.sample_runs import SHIFTED, fill, run_of

pytestmark = [pytest.mark.e2e]

KEY = run_of(SHIFTED, 0).key
WIDE, SMALL = {"width": 1400, "height": 900}, {"width": 390, "height": 740}
STORIES = [(Act.ACCEPT, WIDE, "light"), (Act.REGRESSION, WIDE, "dark"), (Act.RERUN, SMALL, "light")]
STORIES += [(Act.ACKNOWLEDGE, SMALL, "dark")]
DONE = {
    Act.ACCEPT: "The new level is accepted: later runs are compared with it.",
    Act.REGRESSION: "Your answer is stored.",
    Act.RERUN: "A run has been started.",
    Act.ACKNOWLEDGE: "Acknowledged.",
}
WHY = "a larger model"


@pytest.fixture(scope="module")
def home(home: Home) -> Home:
    home.add_test(SHIFTED, command=["true"])
    with home.warehouse() as warehouse:
        fill(warehouse)
    return home


@pytest.fixture(scope="module")
def airflow(home: Home) -> Iterator[Standalone]:
    with api_server(home) as running:
        running.unpause(SHIFTED)
        yield running


def mail(airflow: Standalone) -> str:
    """The HTML of a mail about the run that opened the incident."""
    buttons = buttons_of(SHIFTED, KEY, MessageKind.BROKEN, f"{airflow.url}/ml-metrics", tuple(Act))
    report = replace(REPORT, test=SHIFTED, run_key=KEY, buttons=buttons, problems=REPORT.problems[:1])
    return compose(replace(report, problems=(replace(report.problems[0], picture=None),)), []).html


def follow_button(page: Page, airflow: Standalone, home: Home, act: Act) -> None:
    """Press the button of the mail, and log in, by keyboard. Airflow's own pages are not ours to check."""
    page.set_content(mail(airflow))
    press_until(page, "Tab", page.locator(f"a.button[href*='act={act}']").first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Log in")).to_be_visible()
    check_look(page, "the page without a login")
    press_until(page, "Tab", page.locator("main a").first)
    page.keyboard.press("Enter")
    page.locator("input[name=username]").fill("admin")
    page.keyboard.press("Tab")
    page.keyboard.type(password(home, "admin"))
    page.keyboard.press("Enter")
    page.wait_for_url(f"{airflow.url}/ml-metrics/inbox?test={SHIFTED}&run={KEY}&act={act}")


@pytest.mark.parametrize("story", STORIES, ids=[story[0] for story in STORIES])
def test_a_button_leads_to_the_act_which_enter_confirms(
    browser: Browser, airflow: Standalone, home: Home, story: tuple[Act, Any, Any]
) -> None:
    act, size, theme = story
    with home.warehouse() as warehouse:
        before = warehouse.incidents.find_open(SHIFTED)
        runs = airflow.client.get(f"/api/v2/dags/{SHIFTED}/dagRuns").json()["total_entries"]
    context = browser.new_context(viewport=size, color_scheme=theme)
    page = context.new_page()
    page.set_default_navigation_timeout(PAGE_MILLISECONDS)
    follow_button(page, airflow, home, act)
    for other in Act:
        if other is not act:
            page.goto(f"{airflow.url}/ml-metrics/inbox?test={SHIFTED}&run={KEY}&act={other}")
            check_look(page, other)
    page.goto(f"{airflow.url}/ml-metrics/inbox?test={SHIFTED}&run={KEY}&act={act}")
    chosen = page.locator("section.chosen")
    expect(chosen.get_by_role("heading", name=f"{act.label}?")).to_be_visible()
    check_look(page, act)
    with home.warehouse() as warehouse:
        assert warehouse.incidents.find_open(SHIFTED) == before, "opening pages changes nothing"
    if act is Act.RERUN:
        expect(chosen.get_by_role("button")).to_be_focused()
    else:
        expect(chosen.get_by_role("textbox")).to_be_focused()
        page.keyboard.type(WHY)
    page.keyboard.press("Enter")
    expect(page.locator(".done [role=status]")).to_have_text(DONE[act])
    expect(page.locator(".entry")).to_have_count(1)
    check_look(page, "what was done")
    context.close()
    with home.warehouse() as warehouse:
        after = warehouse.incidents.find_open(SHIFTED)
        accepted = [(one.run_key, one.accepted_by, one.reason) for one in warehouse.acceptances.of_test(SHIFTED)]
    assert after is not None
    match act:
        case Act.ACCEPT:
            assert accepted == [(KEY, "admin", WHY)]
        case Act.REGRESSION:
            assert (after.is_regression, after.assessed_by) == (True, "admin")
        case Act.RERUN:
            assert airflow.client.get(f"/api/v2/dags/{SHIFTED}/dagRuns").json()["total_entries"] == runs + 1
        case Act.ACKNOWLEDGE:
            assert (after.acknowledged_by, after.note) == ("admin", WHY)
