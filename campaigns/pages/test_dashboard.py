"""The dashboard in a real Airflow, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, Locator, Page, expect

from airflow_home import Home
from browser import Watched, check_look, logged_in, press_until
from campaigns.pages.hostile_names import STRINGS, run_of_everything
from ml_metrics.core.model import JobStatus
from ml_metrics.ui.cli.report import write_report
from ml_metrics.ui.dashboard.app import app
from ml_metrics.ui.dashboard.links import ServerLinks
from standalone_airflow import Standalone, api_server, password, token_of
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, TODAY, fill, recorded, run_of

pytestmark = [pytest.mark.e2e]

MANY = "tf-many-metrics"
TRACKER = "https://tracker.example/new"
YESTERDAY = (TODAY - timedelta(days=1)).date()
LINKS = ServerLinks()


@pytest.fixture(scope="module")
def home(home: Home) -> Home:
    users = "simple_auth_manager_users = admin:admin,vera:viewer"
    text = home.configuration.read_text().replace("[core]\n", f"[core]\n{users}\n", 1)
    home.configuration.write_text(f"{text}issue_url = {TRACKER}?title={{title}}&body={{body}}\n")
    for name in (STEADY, SHIFTED, FAILING):
        home.add_test(name, command=["true"])
    with home.warehouse() as warehouse:
        fill(warehouse)
        more = {"goodput": 91.0, "badput_idle_percent": 6.0, "badput_checkpoint_percent": 3.0}
        warehouse.load_all([recorded(MANY, day, more=more) for day in range(10)])
    return home


@pytest.fixture(scope="module")
def airflow(home: Home) -> Iterator[Standalone]:
    with api_server(home) as running:
        yield running


@pytest.fixture
def watched(browser: Browser, airflow: Standalone, request: pytest.FixtureRequest) -> Iterator[Watched]:
    options: dict[str, Any] = getattr(request, "param", {})
    context = logged_in(browser, airflow.url, airflow.token, **options)
    page = Watched(context, airflow.url)
    yield page
    context.close()
    assert page.other_requests == []
    assert [error for error in page.errors if "401" not in error] == []


def test_a_user_accepts_and_acknowledges_a_broken_metric(browser: Browser, airflow: Standalone, home: Home) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = Watched(context, airflow.url).page
    page.goto(f"{airflow.url}/")
    page.locator("input[name=username]").fill("admin")
    page.locator("input[name=password]").fill(password(home, "admin"))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="ML Metrics").click()
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Tests", exact=True)).to_be_visible()
    expect(frame.get_by_text("2 failing")).to_be_visible()

    frame.get_by_label("show").select_option("only failing")  # filters act at once
    expect(frame.get_by_role("rowheader")).to_have_count(2)
    frame.locator("select[name=owner]").select_option("speech-team")
    expect(frame.get_by_role("rowheader")).to_have_count(1)
    frame.get_by_role("link", name=SHIFTED, exact=True).click()
    expect(frame.get_by_role("heading", name=SHIFTED)).to_be_visible()

    points = frame.locator("[id=chart-0] .mark-symbol.role-mark path")
    expect(points).to_have_count(20)
    points.last.hover()
    expect(frame.locator("#tip")).to_contain_text("out of bounds")
    expect(frame.locator("#tip")).to_contain_text(f"{TODAY:%Y-%m-%d} 12:00 UTC")

    frame.get_by_text("Accept this level").click()
    frame.get_by_label("reason").last.fill("a larger model")
    frame.get_by_role("button", name=re.compile("Accept 14")).click()
    expect(frame.get_by_text("The new level is accepted")).to_be_visible()
    expect(frame.get_by_text("accepted by admin: a larger model").first).to_be_visible()
    expect(frame.locator("[id=chart-0]").get_by_text("A", exact=True)).to_be_visible()
    with home.warehouse() as warehouse:
        (accepted,) = warehouse.acceptances.of_test(SHIFTED)
    assert (accepted.accepted_by, accepted.run_key) == ("admin", run_of(SHIFTED, 0).key)

    frame.locator("summary", has_text="Acknowledge").click()
    frame.get_by_label("note").fill("a bad disk")
    frame.locator("button", has_text="Acknowledge").click()
    expect(frame.get_by_text("Acknowledged by admin: a bad disk.")).to_be_visible()

    frame.get_by_role("link", name="DAG in Airflow").click()
    page.wait_for_url(f"**/dags/{SHIFTED}**")
    context.close()


def test_the_tabs_of_a_dag_and_of_a_run(watched: Watched, airflow: Standalone) -> None:
    page = watched.page
    page.goto(f"{watched.url}/dags/{SHIFTED}/plugin/ml-metrics-dag")
    expect(page.frame_locator("iframe").get_by_role("heading", name=SHIFTED)).to_be_visible()
    run = airflow.trigger(SHIFTED, run=run_of(SHIFTED, 0).run_id)
    page.goto(f"{watched.url}/dags/{SHIFTED}/runs/{run}/plugin/ml-metrics-run")
    expect(page.frame_locator("iframe").get_by_role("heading", name=re.compile("run of"))).to_be_visible()


def test_every_route_needs_a_login_and_every_action_a_permission(airflow: Standalone, home: Home) -> None:
    forged = "eyJhbGciOiJIUzUxMiJ9.e30.x"
    visitors = {
        "anonymous": {},
        "forged": {"Authorization": f"Bearer {forged}"},
        "cookie": {"Cookie": f"_token={forged}"},
    }
    routes = [(method, route.path) for route in app.routes if isinstance(route, APIRoute) for method in route.methods]
    assert len(routes) >= 12
    for visitor, headers in visitors.items():
        for method, path in routes:
            filled = path.replace("{name}", "vega.js").replace("{rest:path}", "x")
            answer = httpx.request(method, f"{airflow.url}/ml-metrics{filled}", headers=headers)
            assert answer.status_code in {401, 403}, (visitor, method, path)
    login = {"Authorization": f"Bearer {token_of(home, airflow.url, 'vera')}"}
    with httpx.Client(base_url=f"{airflow.url}/ml-metrics", headers=login) as viewer:
        assert viewer.get(f"/test?test={SHIFTED}").status_code == 200
        for action in ("accept", "acknowledge", "quarantine", "assign", "assess", "rerun", "undo"):
            assert viewer.post(f"/{action}", data={"test": SHIFTED}).status_code == 403


PAGES = {
    "inbox": "inbox",
    "tests": "",
    "test": LINKS.test(MANY),
    "broken": LINKS.test(FAILING),
    "run": LINKS.run(run_of(SHIFTED, 0).key, SHIFTED),
    "compare": "compare?tests=*&metrics=loss_*",
    "owners": "?group=owner",
    "two images": f"compare?kind=images&test={SHIFTED}&base=image:1&candidate=image:2",
    "one metric": LINKS.test(SHIFTED, metric="loss_final"),
    "nodes": "fleet?view=nodes&metric=loss_final",
    "fleet": "fleet",
    "night": "night",
    "missing": "no-such-page",
}
SIZES = ({"width": 1400, "height": 900}, {"width": 390, "height": 740})
DISPLAYS = [{"viewport": size, "color_scheme": scheme} for size in SIZES for scheme in ("light", "dark")]


@pytest.mark.parametrize("watched", DISPLAYS, indirect=True, ids=["light", "dark", "small light", "small dark"])
def test_pages_have_no_accessibility_violation(watched: Watched) -> None:
    for name, path in PAGES.items():
        page = watched.go(path)
        if name in {"test", "compare"}:
            watched.wait_for_chart()
        check_look(page, name)
    watched.errors = [error for error in watched.errors if "404" not in error]


TOP = "element => element.getBoundingClientRect().top + scrollY"
HEIGHT = "element => element.getBoundingClientRect().height"


@pytest.mark.parametrize("watched", [{"viewport": {"width": 1280, "height": 900}}], indirect=True)
def test_what_a_person_looks_for_is_on_the_first_screen(watched: Watched) -> None:
    """Fonts differ between machines, so places are compared rather than pixels."""
    page = watched.go(LINKS.test(SHIFTED))
    watched.wait_for_chart()
    assert page.locator(".draw").first.evaluate(TOP) < 300
    page = watched.go("inbox")
    rows = page.locator(".inbox .row")
    assert rows.count() > 0
    assert {round(row.evaluate(HEIGHT)) for row in rows.all()} == {40}
    assert rows.first.evaluate(TOP) < 300
    page = watched.go(LINKS.run(run_of(SHIFTED, 0).key, SHIFTED))
    assert page.get_by_text("loss_final").first.evaluate(TOP) < 300


def test_every_cell_of_the_heatmap_is_reachable_by_keyboard(watched: Watched) -> None:
    page = watched.go("")
    cell = page.locator(".heat td.f:not(.l) a").first
    for _ in range(60):
        page.keyboard.press("Tab")
        if cell.evaluate("cell => cell === document.activeElement"):
            break
    expect(page.locator("#tip")).to_have_text("failure: OOMKilled")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(FAILING)

    watched.go("")
    page.locator(".heat td.f:not(.l) a").first.focus()
    page.keyboard.press("ArrowRight")
    passed = page.locator(".heat td.g:not(.l) a:focus")
    expect(passed).to_have_attribute("aria-label", re.compile(f"{FAILING}, .*{YESTERDAY}: ✓"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#tip")).to_have_text("failure: OOMKilled")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/test?test={FAILING}&since={YESTERDAY}&until={YESTERDAY}")


@pytest.mark.parametrize("watched", [{"viewport": SIZES[1]}], indirect=True)
def test_a_status_is_in_view_on_a_phone_and_the_search_narrows_as_one_types(watched: Watched) -> None:
    page = watched.go("")
    status = page.locator(".heat tbody tr").first.locator("td.l")
    box = status.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= SIZES[1]["width"]
    assert box["y"] + box["height"] <= SIZES[1]["height"], "the filters leave room for the first status"
    expect(page.locator("td.s svg").first).to_be_visible()
    rows = page.locator(".heat tbody tr:not([hidden])")
    before = rows.count()
    page.locator("input[data-search]").fill("STEAD")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name=f"Favourite: {STEADY}").click()
    page.locator("input[data-search]").fill("")
    expect(rows).to_have_count(before)
    page.reload()
    expect(page.locator(".heat tbody tr").first).to_contain_text(STEADY)


def test_the_values_behind_a_chart_open_in_its_place(watched: Watched) -> None:
    page = watched.go(LINKS.test(SHIFTED))
    watched.wait_for_chart()
    expect(page.locator(".notes li", has_text="the level rose").first).to_be_visible()
    page.locator("[data-values] summary").first.click()
    expect(page.locator("[data-values] tbody tr")).to_have_count(20)


def test_pages_follow_the_theme_that_is_chosen_in_airflow(watched: Watched) -> None:
    page = watched.go(LINKS.test(MANY))
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    watched.wait_for_chart()
    text = page.locator("[data-drawn] .role-axis-label text").first
    light = text.get_attribute("fill")
    airflow = page.context.new_page()
    airflow.goto(f"{watched.url}/ml-metrics/icon.svg")
    airflow.evaluate("localStorage.setItem('theme', 'dark')")
    expect(page.locator("body")).to_have_css("background-color", "rgb(22, 29, 45)")
    expect(text).not_to_have_attribute("fill", light or "")
    airflow.evaluate("localStorage.setItem('theme', 'system')")
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    airflow.close()


def act_on(page: Page, entry: Locator) -> None:
    """File an issue about the failing test, assign it, run it again, quarantine it, and close it as a false alarm."""
    press_until(page, "j", entry)
    page.keyboard.press("o")
    issue = entry.get_by_role("link", name="open an issue")
    press_until(page, "Tab", issue)
    assert (issue.get_attribute("href") or "").startswith(f"{TRACKER}?title={FAILING}")
    press_until(page, "Tab", entry.get_by_role("button", name="Assign"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Assigned.")
    press_until(page, "j", entry)
    page.keyboard.press("o")
    expect(entry.get_by_text("assigned to admin")).to_be_visible()
    entry.locator(".more-acts > summary").press("Enter")
    entry.get_by_role("button", name=f"Run {FAILING} again").press("Enter")
    expect(page.get_by_text("A run has been started.")).to_be_visible()
    press_until(page, "j", entry)
    page.keyboard.press("q")
    page.keyboard.type("a bad disk")
    page.keyboard.press("Enter")
    expect(entry.locator(".state")).to_have_text("quarantined")
    press_until(page, "j", entry)
    page.keyboard.press("o")
    entry.locator(".more-acts > summary").press("Enter")
    entry.get_by_label("why it is one or not").fill("a slow disk")
    entry.get_by_role("button", name="Not a regression").press("Enter")
    expect(page.get_by_text("The incident is closed as a false alarm.")).to_be_visible()
    expect(entry).to_have_count(0)


def test_a_morning_is_worked_through_by_keyboard_alone(watched: Watched, airflow: Standalone, home: Home) -> None:
    """See, understand, compare, acknowledge ten and undo it, file an issue, run again, close a false alarm, search."""
    ten = [f"morning-{number}" for number in range(10)]
    with home.warehouse() as warehouse:
        warehouse.load_all(recorded(name, 0, status=JobStatus.FAILURE, reason="Evicted") for name in ten)
        for name in (FAILING, *ten):
            warehouse.incidents.report(name, run_of(name, 0).key, fingerprint="x", reasons=["job_status:failure"])
    page = watched.go("inbox")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()

    shifted, failing = (page.locator(".entry", has_text=name) for name in (SHIFTED, FAILING))
    press_until(page, "j", shifted)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(SHIFTED)
    watched.wait_for_chart()
    press_until(page, "Tab", page.get_by_role("link", name="the newest run"))
    page.keyboard.press("Enter")
    expect(page.locator("p.why")).to_contain_text("loss_final = 14, must be below 11")
    press_until(page, "Tab", page.get_by_role("link", name="compare with it"))
    page.keyboard.press("Enter")
    expect(page.locator("tr.broken")).to_contain_text("worse")

    watched.go("inbox?q=morning")
    for _ in ten:
        page.keyboard.press("j")
        page.keyboard.press("x")
    expect(page.locator("[data-chosen]")).to_have_text("10 chosen")
    page.keyboard.press("a")
    page.keyboard.type("j is typed")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Acknowledged.")

    def notes() -> set[str]:
        with home.warehouse() as warehouse:
            return {warehouse.incidents.all_open()[name].note for name in ten}

    assert notes() == {"j is typed"}
    page.wait_for_load_state()
    page.keyboard.press("u")
    expect(page.get_by_role("status")).to_have_text("Undone: everything is as before.")
    assert notes() == {""}

    airflow.unpause(FAILING)
    watched.go("inbox")
    act_on(page, failing)
    with home.warehouse() as warehouse:
        assert warehouse.incidents.find_open(FAILING) is None
        assert warehouse.messages.since(TODAY - timedelta(days=1), FAILING)[0].occasion == "recovered"
        for name in ten:
            warehouse.incidents.close(name, run_of(name, 0).key)
        warehouse.quarantines.set(FAILING, until=TODAY, reason="the test is over", by="admin")
    page.wait_for_load_state()
    page.keyboard.press("/")
    page.keyboard.type("no-such-test")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No incident matches.")).to_be_visible()


@pytest.mark.parametrize("watched", [{"bypass_csp": True}], indirect=True)
def test_no_stored_string_runs_as_a_script(watched: Watched, home: Home) -> None:
    """Escaping must suffice: the content security policy, which would block most scripts, is off."""
    assert len(STRINGS) >= 50
    everything = "hostile-everything"
    with home.warehouse() as warehouse:
        warehouse.load(run_of_everything(everything, TODAY))
        warehouse.load_all([run_of_everything(name, TODAY, (name,)) for name in STRINGS])
        key = run_of_everything(everything, TODAY).key
        for name in STRINGS:
            warehouse.acceptances.add(key, name, reason=name, by=name)
            warehouse.incidents.report(name, run_of_everything(name, TODAY).key, fingerprint=name, reasons=[name])
            warehouse.incidents.acknowledge(name, by=name, note=name)
            warehouse.quarantines.set(name, until=TODAY + timedelta(days=9), reason=name, by=name)
    pages = ["", "?by=runs", LINKS.test(everything), LINKS.run(key, everything)]
    pages += ["compare?tests=*&metrics=*", "fleet", "fleet?view=nodes", "night"]
    pages += [LINKS.test(name) for name in STRINGS]
    pages += [f"?q={text}&owner={text}" for text in ("<script>xss()</script>", '"><img src=x onerror=xss()>')]
    for path in pages:
        page = watched.go(path)
        page.evaluate("() => new Promise(requestAnimationFrame)")
        if path in pages[:7]:  # tooltips are the same on every page
            for element in [*page.locator("[title]").all()[:4], *page.locator(".mark-symbol.role-mark path").all()[:2]]:
                element.hover(force=True)
    assert watched.ran == []
    watched.errors = [error for error in watched.errors if "404" not in error and "400" not in error]


def test_a_report_works_from_a_file(browser: Browser, home: Home, tmp_path: Path) -> None:
    with home.warehouse() as warehouse:
        list(write_report(warehouse, str(tmp_path), [STEADY, SHIFTED, MANY], {}, TODAY))
    context = browser.new_context()
    watched = Watched(context, "file://")
    page = watched.page
    page.goto(f"file://{tmp_path}/index.html")
    page.get_by_role("link", name=MANY, exact=True).click()
    watched.wait_for_chart()
    expect(page.locator("[data-drawn]").first.locator(".mark-symbol.role-mark path")).to_have_count(10)
    context.close()
    assert (watched.errors, watched.other_requests) == ([], [])
