"""Errors, formats, methods and security headers of the routes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.ui.dashboard import source
from ml_metrics.ui.dashboard.app import MOVED, app
from ml_metrics.ui.dashboard.links import ASSETS
from ml_metrics.warehouse import Warehouse, open_warehouse, run_record
from ml_metrics.warehouse.database import Database
from unit.ui.dashboard.sample_runs import PAGES, SHIFTED, STEADY, Rights, recorded, run_of, submit


@pytest.mark.parametrize(
    ("page", "status", "reason"),
    [
        ("/test?test=none", 404, "There is no test"),
        ("/run?run=none", 404, "There is no such run"),
        ("/dag?dag_id=none", 404, "has not recorded a run"),
        ("/dag-run?dag_id=none&run_id=none", 404, "has not been recorded"),
        ("/nothing/here", 404, "There is no page"),
        ("/assets/..%2Faccess.py", 404, "There is no"),
        ("/assets/access.py", 404, "There is no such file"),
        ("/test", 400, "The parameter test is missing"),
        ("/test?test=", 400, "The parameter test is missing"),
        ("/?since=tomorrow", 400, "is not a date"),
        ("/?since=2026-13-01", 400, "is not a date"),
        (f"/?since={'x' * 301}", 400, "longer than"),
        (f"/?tz={'x' * 1000}", 400, "is not a time zone"),
        ("/?since=2026-03-02&until=2026-03-01", 400, "is after until"),
        ("/?tz=Middle/Earth", 400, "is not a time zone"),
        ("/?tz=../../etc/passwd", 400, "is not a time zone"),
        *(
            (f"/?page={number}", 400, "is not a number between 1")
            for number in ("0", "-1", "1.5", "1000001", "٣", "1e1")
        ),
        ("/?page=", 200, "loss_final"),
        ("/?by=weeks", 400, "is not one of days, runs"),
        ("/?format=xml", 400, "is not one of"),
        (f"/?q={'x' * 400}", 400, "longer than"),
        ("/dag", 400, "dag_id"),
        ("/?since=1900-01-01&until=2100-01-01", 200, "the newest 366"),
        (f"/test?test={STEADY}&since=0001-01-01&until=9999-12-31", 200, "loss_final"),
        (f"/test?test={STEADY}&since=1980-01-01&until=1980-01-02", 200, "No run stopped between"),
        ("/compare?tests=*&metrics=*&since=1926-01-01&until=2026-12-31", 200, "loss_final"),
    ],
)
def test_an_error_states_what_is_wrong(shown: TestClient, page: str, status: int, reason: str) -> None:
    answer = shown.get(page)
    assert answer.status_code == status
    assert reason in answer.text
    if status != 200 and "format=" not in page:
        answer = shown.get(f"{page}{'&' if '?' in page else '?'}format=json")
        assert answer.status_code == status
        assert answer.json()["error"].startswith({400: "Bad request: ", 404: "Not found: "}[status])
        assert reason in answer.json()["error"]


@pytest.mark.parametrize("page", PAGES)
def test_a_warehouse_that_is_down_is_an_error(shown: TestClient, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    @contextmanager
    def down() -> Iterator[Warehouse]:
        with open_warehouse("postgresql+psycopg://nobody:secret@127.0.0.1:1/none") as opened:
            yield opened

    source.SOURCE.forget()
    monkeypatch.setattr(source, "warehouse", down)
    answer = shown.get(page)
    assert answer.status_code == 503
    assert "The warehouse cannot be read" in answer.text
    for word in ("secret", "nobody", "127.0.0.1", "none", "postgresql"):
        assert word not in answer.text.replace("'none'", "")


def test_each_page_needs_the_same_number_of_queries_for_any_number_of_rows(
    browser: TestClient, filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[str] = []
    ask = Database.query

    def counted(self: Database, query: str, **parameters: Any) -> list[dict[str, Any]]:
        queries.append(query)
        return ask(self, query, **parameters)

    def number_of_queries(page: str) -> int:
        source.SOURCE.forget()
        queries.clear()
        assert browser.get(page).status_code == 200
        return len(queries)

    monkeypatch.setattr(Database, "query", counted)
    few = {page: number_of_queries(page) for page in PAGES}
    filled.load_all([recorded(f"tf-more{number}", day, 99.0) for number in range(12) for day in range(9)])
    more = {f"m{n}": 1.0 for n in range(20)}
    filled.load_all([recorded(SHIFTED, day + 0.5, 14.0 if day < 4 else 10.0, more=more) for day in range(9)])
    for number in range(5):
        filled.incidents.report(f"tf-more{number}", run_of(f"tf-more{number}", 0).key, fingerprint="x", reasons=["x"])
    assert {page: number_of_queries(page) for page in PAGES} == few
    assert 0 < min(few.values()) <= max(few.values()) <= 16


def test_permission_and_login_errors_of_json_pages_are_json(as_user: Callable[..., TestClient]) -> None:
    answer = as_user(Rights(frozenset())).get(f"/test?test={SHIFTED}&format=json")
    assert (answer.status_code, answer.json()) == (403, {"error": "Forbidden: You may not read the runs of this DAG."})
    app.dependency_overrides.clear()
    answer = TestClient(app).get("/?format=json")
    assert (answer.status_code, list(answer.json())) == (401, ["error"])


@pytest.mark.parametrize("page", [*PAGES, "/assets/vega.js", "/icon.svg"])
def test_head_returns_the_headers_of_get(shown: TestClient, page: str) -> None:
    head, get = shown.head(page), shown.get(page)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


def test_every_page_is_among_those_that_tests_ask_for() -> None:
    others = {"/assets/{name}", "/icon.svg", "/{rest:path}", "/metrics", "/file", "/experiment", *MOVED}
    routes = {route.path for route in app.routes if isinstance(route, APIRoute) and "GET" in route.methods} - others
    assert routes == {page.partition("?")[0] for page in PAGES}, "PAGES of sample_runs.py has an address of each page"


def test_every_get_route_answers_head() -> None:
    methods = [route.methods for route in app.routes if isinstance(route, APIRoute)]
    assert [each for each in methods if "GET" in each and "HEAD" not in each] == []


def test_browsers_keep_an_asset_for_a_year_if_its_address_has_the_hash_of_its_content(shown: TestClient) -> None:
    linked = {link for page in PAGES for link in re.findall(r'"(assets/[^"]+)"', shown.get(page).text)}
    assert {link.partition("?v=")[0] for link in linked} == {f"assets/{name}" for name in ASSETS}
    for link in linked:
        assert shown.get(f"/{link}").headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize("query", ["", "?v=", "?v=0123456789abcdef"])
def test_an_asset_under_another_hash_is_not_kept(shown: TestClient, query: str) -> None:
    answer = shown.get(f"/assets/charts.js{query}")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize("page", [*PAGES, "/nothing", "/assets/vega.js", "/icon.svg"])
def test_every_response_forbids_foreign_content(shown: TestClient, page: str) -> None:
    policy = shown.get(page).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_no_page_names_another_host(shown: TestClient) -> None:
    for page in PAGES:
        text = shown.get(page).text
        assert re.findall(r'(?:src|href|action)="(?:https?:)?//[^"]*"', text) == []


def test_another_deployment_has_no_pages_and_nothing_of_it_can_be_changed(
    browser: TestClient, filled: Warehouse
) -> None:
    other = filled.in_deployment("other")
    run = Run("elsewhere", "elsewhere", "r", "other")
    here = Run(STEADY, STEADY, "r", "other")
    nothing = {"test_type": "", "accelerator": "", "framework_version": ""}
    before = {path: browser.get(path).text for path in ("/?format=json", f"/test?test={STEADY}&format=json")}
    for one in (run, here):
        ended = Workload(JobStatus.SUCCESS, ended_at=datetime.now(UTC))
        metric = Metric("loss_final", 9.0, "loss", "final")
        other.load(run_record(one, ended, [metric], [], {}, **nothing))
        other.incidents.report(one.test, one.key, fingerprint="f", reasons=["why"])
    assert {path: browser.get(path).text for path in before} == before
    for path in ("/test?test=elsewhere", f"/run?run={run.key}", f"/run?run={here.key}", "/dag?dag_id=elsewhere"):
        assert browser.get(path).status_code == 404, path

    def sent(action: str, **fields: str) -> Any:
        return submit(browser, action, {"reason": "x", **fields}, f"/test?test={STEADY}")

    for test, key in ((run.test, run.key), (STEADY, here.key)):
        assert sent("accept", metric="loss_final", test=test, run=key).status_code == 404
    assert sent("acknowledge", test="elsewhere").status_code == 404
    assert sent("acknowledge", test=STEADY).headers["location"].endswith("nothing-to-acknowledge")
    assert sent("quarantine", test="elsewhere", until=f"{datetime.now(UTC).date()}").status_code == 404
    assert {one.acknowledged_by for one in other.incidents.all_open().values()} == {None}
