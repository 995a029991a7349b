"""Nobody sees or does what they may not. The routes are counted, so that a new one is tested on the day it is made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ml_metrics.dashboard.app import app
from unit.dashboard.made import FAILING, SHIFTED, STEADY, Rights, run_of

As = Callable[..., TestClient]
ROUTES = [
    (method, route.path) for route in app.routes for method in (route.methods if isinstance(route, APIRoute) else {"?"})
]
FILLED = {"{name}": "dashboard.css", "{rest:path}": "nothing/here"}
OF_A_TEST = (
    f"/test?test={SHIFTED}",
    f"/run?run={run_of(SHIFTED, 0).key}",
    f"/dag?dag_id={SHIFTED}",
    f"/dag-run?dag_id={SHIFTED}&run_id={run_of(SHIFTED, 0).run_id}",
)


def address(path: str) -> str:
    for name, value in FILLED.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_answers_somebody_who_is_not_logged_in(method: str, path: str) -> None:
    assert TestClient(app).request(method, address(path)).status_code == 401


def test_who_follows_a_link_of_a_mail_finds_the_login_and_comes_back() -> None:
    text = TestClient(app, root_path="/ml-metrics").get("/ml-metrics/run?run=1").text
    assert 'href="../auth/login?next=%2Fml-metrics%2Frun%3Frun%3D1"' in text


def test_airflows_descriptions_of_an_app_are_off() -> None:
    assert {path for _, path in ROUTES}.isdisjoint({"/docs", "/redoc", "/openapi.json"})
    assert TestClient(app).get("/openapi.json").status_code == 401


DENIED = """
import sys
sys.modules["airflow.api_fastapi.core_api.security"] = None
from fastapi.testclient import TestClient
from ml_metrics.dashboard.app import app
browser = TestClient(app)
answers = [browser.request(method, path).status_code for method, path in {routes!r}]
print("answers:", *answers)
"""


def test_everybody_is_refused_where_airflow_does_not_say_who_asks() -> None:
    code = DENIED.format(routes=[(method, address(path)) for method, path in ROUTES])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["answers:", *["403"] * len(ROUTES)]


@pytest.mark.parametrize("page", OF_A_TEST)
@pytest.mark.usefixtures("filled")
def test_a_test_is_shown_only_to_those_who_may_read_its_dag(page: str, as_user: As) -> None:
    assert as_user(Rights(frozenset({STEADY}))).get(page).status_code == 403
    assert as_user(Rights(frozenset({SHIFTED}))).get(page).status_code == 200


@pytest.mark.parametrize("form", ["html", "json", "csv"])
@pytest.mark.usefixtures("filled")
def test_lists_hold_only_what_may_be_read(form: str, as_user: As) -> None:
    browser = as_user(Rights(frozenset({STEADY})))
    for page in (f"/?format={form}", f"/compare?tests=*&metrics=*&format={form}"):
        text = browser.get(page).text
        assert STEADY in text
        assert SHIFTED not in text
        assert FAILING not in text


@pytest.mark.usefixtures("filled")
def test_who_may_read_nothing_sees_an_empty_list(as_user: As) -> None:
    text = as_user(Rights(frozenset())).get("/").text
    assert "No test that you may see has run yet" in text


@pytest.mark.usefixtures("filled")
def test_a_test_that_is_not_there_tells_nothing_to_those_who_may_not_read_it(as_user: As) -> None:
    browser = as_user(Rights(frozenset({STEADY})))
    assert browser.get("/test?test=no-such-test").status_code == 403
    assert browser.get("/dag?dag_id=no-such-test").status_code == 403
    assert as_user().get("/test?test=no-such-test").status_code == 404


@pytest.mark.usefixtures("filled")
def test_one_who_may_not_change_a_dag_sees_no_buttons(as_user: As) -> None:
    page = f"/test?test={SHIFTED}"
    assert '<form method="post"' not in as_user(Rights(may_change=False)).get(page).text
    assert '<form method="post"' in as_user().get(page).text
