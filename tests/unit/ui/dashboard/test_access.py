"""Permissions. The tests list all routes, so that a new one is covered from the start."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ml_metrics import airflow, ui
from ml_metrics.ui.dashboard import access
from ml_metrics.ui.dashboard.app import app
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, Rights, run_of

As = Callable[..., TestClient]
ROUTES = [
    (method, route.path)
    for route in app.routes
    for method in (sorted(route.methods) if isinstance(route, APIRoute) else ("?",))
]
FILLED = {"{name}": "dashboard.css", "{rest:path}": "nothing/here"}
OF_A_TEST = (
    f"/test?test={SHIFTED}",
    f"/charts?test={SHIFTED}&metric=loss_final",
    f"/run?run={run_of(SHIFTED, 0).key}",
    f"/dag?dag_id={SHIFTED}",
    f"/dag-run?dag_id={SHIFTED}&run_id={run_of(SHIFTED, 0).run_id}",
)


def address(path: str) -> str:
    for name, value in FILLED.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_needs_a_login(method: str, path: str) -> None:
    assert TestClient(app).request(method, address(path)).status_code == 401


def test_the_login_link_leads_back_to_the_page() -> None:
    text = TestClient(app, root_path="/ml-metrics").get("/ml-metrics/run?run=1").text
    assert 'href="../auth/login?next=%2Fml-metrics%2Frun%3Frun%3D1"' in text


def test_the_api_documentation_is_off() -> None:
    assert {path for _, path in ROUTES}.isdisjoint({"/docs", "/redoc", "/openapi.json"})
    assert TestClient(app).get("/openapi.json").status_code == 401


def test_every_request_is_rejected_if_airflows_user_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dashboard is imported again, without the module of Airflow that knows the user."""
    monkeypatch.setattr(ui, "dashboard", ui.dashboard)  # what is imported again takes their places
    monkeypatch.delattr(airflow, "versions")
    for name in list(sys.modules):
        if name.startswith(("ml_metrics.ui.dashboard", "ml_metrics.airflow.versions")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.core_api.security", None)
    browser = TestClient(importlib.import_module("ml_metrics.ui.dashboard.app").app)
    answers = {(method, path): browser.request(method, address(path)).status_code for method, path in ROUTES}
    assert answers == dict.fromkeys(ROUTES, 403)


@pytest.mark.parametrize("page", OF_A_TEST)
@pytest.mark.usefixtures("filled")
def test_a_test_is_shown_only_to_users_who_may_read_its_dag(page: str, as_user: As) -> None:
    assert as_user(Rights(frozenset({STEADY}))).get(page).status_code == 403
    assert as_user(Rights(frozenset({SHIFTED}))).get(page).status_code == 200


@pytest.mark.parametrize("form", ["html", "json", "csv"])
@pytest.mark.usefixtures("filled")
def test_lists_have_only_readable_tests(form: str, as_user: As) -> None:
    browser = as_user(Rights(frozenset({STEADY})))
    for page in (f"/?format={form}", f"/compare?tests=*&metrics=*&format={form}"):
        text = browser.get(page).text
        assert STEADY in text
        assert SHIFTED not in text
        assert FAILING not in text


@pytest.mark.usefixtures("filled")
def test_a_user_without_permissions_sees_an_empty_list(as_user: As) -> None:
    text = as_user(Rights(frozenset())).get("/").text
    assert "No test that you may see has run yet" in text


@pytest.mark.usefixtures("filled")
def test_a_missing_test_and_a_forbidden_test_look_alike(as_user: As) -> None:
    browser = as_user(Rights(frozenset({STEADY})))
    assert browser.get("/test?test=no-such-test").status_code == 403
    assert browser.get("/dag?dag_id=no-such-test").status_code == 403
    assert as_user().get("/test?test=no-such-test").status_code == 404


@pytest.mark.usefixtures("filled")
def test_buttons_need_the_permission_to_change_the_dag(as_user: As) -> None:
    page = f"/test?test={SHIFTED}"
    assert '<form method="post"' not in as_user(Rights(may_change=False)).get(page).text
    assert '<form method="post"' in as_user().get(page).text


OWN = "airflow.example.com"


def rejection(headers: dict[str, str]) -> str | None:
    return access.rejection(access.token("vera", now=0), "vera", {"host": OWN, **headers}, now=0)


def test_a_token_is_valid_for_one_user_and_twelve_hours() -> None:
    token = access.token("vera", now=0)
    assert access.rejection(token, "vera", {}, now=access.VALID_SECONDS - 1) is None
    assert "too old" in (access.rejection(token, "vera", {}, now=access.VALID_SECONDS + 1) or "")
    assert "token" in (access.rejection(token, "bob", {}, now=0) or "")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": f"https://{OWN}"},
        {"origin": f"https://{OWN.upper()}"},
        {"origin": "https://airflow.example.com", "host": "airflow.example.com:443"},
        {"origin": "http://localhost:8080", "host": "localhost:8080"},
        {"origin": "https://public.example", "x-forwarded-host": "public.example"},
        {"origin": "https://public.example", "x-forwarded-host": "public.example, inner.example"},
        {"origin": "https://public.example", "host": "10.0.0.7:8080", "sec-fetch-site": "same-origin"},
        {"origin": "null", "sec-fetch-site": "same-origin"},
    ],
)
def test_a_form_of_the_same_origin_is_accepted(headers: dict[str, str]) -> None:
    assert rejection(headers) is None


def test_a_proxy_may_rewrite_the_host_if_the_base_url_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"origin": "https://public.example", "host": "10.0.0.7:8080"}
    assert "another site" in (rejection(headers) or "")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://public.example:443/airflow")
    assert rejection(headers) is None
    for origin in ("http://public.example", "https://public.example.org", "https://public.example:8443"):
        assert "another site" in (rejection({**headers, "origin": origin}) or ""), origin


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://other.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "https://"},
        {"origin": OWN},
        {"origin": "https://sub.airflow.example.com"},
        {"origin": "https://example.com"},
        {"origin": "https://neighbour.example.com"},
        {"origin": "https://airflow.example.com.evil.example"},
        {"origin": "https://evil.example/airflow.example.com"},
        {"origin": "https://airflow.example.com@evil.example"},
        {"origin": "https://airflow.example.com:8443"},
        {"origin": "http://localhost:9999", "host": "localhost:8080"},
        {"origin": "https://other.example", "x-forwarded-host": "public.example"},
        {"origin": "https://", "x-forwarded-host": ","},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"sec-fetch-site": "same-site", "origin": f"https://{OWN}"},
        {"sec-fetch-site": "cross-site", "origin": f"https://{OWN}", "x-forwarded-host": OWN},
    ],
)
def test_a_form_of_another_origin_is_rejected_even_with_a_valid_token(headers: dict[str, str]) -> None:
    assert "another site" in (rejection(headers) or "")
