"""The routes of the dashboard. Each one checks the login and the user's permissions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as AnyHTTPException

from ml_metrics.alerts import folder_of
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.text import logger_of
from ml_metrics.pipeline.experiments import BISECT, dag_of, test_of
from ml_metrics.ui.dashboard import access
from ml_metrics.ui.dashboard import experiments as experiment_page
from ml_metrics.ui.dashboard.access import LOGIN_REQUIRED, CurrentVisitor, Visitor
from ml_metrics.ui.dashboard.actions import DONE, router
from ml_metrics.ui.dashboard.all_tests import page_of_tests, sparklines
from ml_metrics.ui.dashboard.compare import page_of_comparison, page_of_two
from ml_metrics.ui.dashboard.experiments import page_of_experiments
from ml_metrics.ui.dashboard.fleet import page_of_fleet
from ml_metrics.ui.dashboard.inbox import page_of_inbox
from ml_metrics.ui.dashboard.links import ASSETS, BadQueryError, ServerLinks, asset_hash, choice, required, with_query
from ml_metrics.ui.dashboard.night import page_of_night
from ml_metrics.ui.dashboard.one_run import curves_of_runs, file_of_run, page_of_run, the_other
from ml_metrics.ui.dashboard.one_test_page import charts_of_page, page_of_test
from ml_metrics.ui.dashboard.page import NotFoundError, Page, Reader, as_csv, as_json, banners_of, templates
from ml_metrics.ui.dashboard.scrape import SCRAPES
from ml_metrics.ui.dashboard.source import SOURCE
from ml_metrics.ui.openmetrics import CONTENT_TYPE
from ml_metrics.warehouse import JobRow, Warehouse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Only own scripts run, no other host is contacted, no foreign frames."""


class SecureHeaders:
    """Middleware that adds `HEADERS` to every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


if TYPE_CHECKING:
    PageOfTests = Callable[[Warehouse, Mapping[str, str], Reader], Page]

log = logger_of(__name__)

LINKS = ServerLinks()


app = FastAPI(title="ML Metrics", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[LOGIN_REQUIRED])
app.add_middleware(SecureHeaders)
app.include_router(router)
page_route = partial(app.api_route, methods=["GET", "HEAD"])


@page_route("/")
def tests(request: Request, visitor: CurrentVisitor) -> Response:
    return _respond_of_tests(page_of_tests, request, visitor, "tests")


@page_route("/inbox")
def inbox(request: Request, visitor: CurrentVisitor) -> Response:
    query = request.query_params
    with SOURCE.open() as warehouse:
        page = page_of_inbox(warehouse, query, _reader(visitor))
    rights = {"may_change": cache(partial(visitor.may, "PUT")), "may_start": cache(partial(visitor.may, "POST"))}
    token = access.token(visitor.id)
    return _respond(page, query, "inbox", csrf_token=token, visitor=visitor.name, done=_done(query), **rights)


@page_route("/test")
def test(request: Request, visitor: CurrentVisitor) -> Response:
    return _respond_test(visitor, request.query_params)


@page_route("/charts")
def charts(request: Request, visitor: CurrentVisitor) -> Response:
    """JSON, which the page of a test requests when charts come into view."""
    query = request.query_params
    with SOURCE.open() as warehouse:
        test = required(query, "test")
        newest = warehouse.runs.latest(test)
        visitor.require("GET", newest.dag if newest else test)
        found = charts_of_page(warehouse, query, query.getlist("metric"), _reader(visitor))
    return _json(found)


@page_route("/sparklines")
def sparks(request: Request, visitor: CurrentVisitor) -> Response:
    """JSON, which the page of all tests requests for the rows in view."""
    with SOURCE.open() as warehouse:
        return _json(sparklines(warehouse, request.query_params.getlist("test"), _reader(visitor)))


@page_route("/run")
def run(request: Request, visitor: CurrentVisitor) -> Response:
    query = request.query_params
    with SOURCE.open() as warehouse:
        return _respond_run(visitor, _readable_run(warehouse, visitor, required(query, "run")), query)


@page_route("/curves")
def curves(request: Request, visitor: CurrentVisitor) -> Response:
    """Those within a run as JSON, beside those of the run `with`."""
    query = request.query_params
    keys = [required(query, "run"), the_other(query, query["run"])]
    with SOURCE.open() as warehouse:
        runs = [_readable_run(warehouse, visitor, key) for key in keys if key]
    folders = {f"{run.timestamp:%Y-%m-%d %H:%M} {run.test_name} {run.uuid[:8]}": folder_of(run) for run in runs}
    return _json(curves_of_runs(folders, query))


@page_route("/file")
def file(request: Request, visitor: CurrentVisitor) -> Response:
    """Text to read, anything else to download. Browsers run nothing in it."""
    query = request.query_params
    with SOURCE.open() as warehouse:
        found = _readable_run(warehouse, visitor, required(query, "run"))
    content, is_text = file_of_run(found, required(query, "name"))
    if is_text:
        return Response(content, media_type="text/plain; charset=utf-8")
    headers = {"Content-Disposition": "attachment"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@page_route("/compare")
def compare(request: Request, visitor: CurrentVisitor) -> Response:
    query = request.query_params
    view = choice(query, "view", ("two", "metrics", "experiments"))
    if view == "experiments":
        return _respond(page_of_experiments(visitor.readable), query, "experiments")
    over_time = view == "metrics" or {"tests", "metrics"} & query.keys()
    return _respond_of_tests(page_of_comparison if over_time else page_of_two, request, visitor, "compare")


@page_route("/fleet")
def fleet(request: Request, visitor: CurrentVisitor) -> Response:
    return _respond_of_tests(page_of_fleet, request, visitor, "fleet")


MOVED = {"/cost": "fleet?", "/nodes": "fleet?view=nodes&", "/experiments": "compare?view=experiments&"}
"""Pages that are parts of others now: messages and bookmarks have their addresses."""


@page_route("/night")
def night(request: Request, visitor: CurrentVisitor) -> Response:
    return _respond_of_tests(page_of_night, request, visitor, "night")


@page_route("/cost")
@page_route("/nodes")
@page_route("/experiments")
def moved(request: Request) -> Response:
    return RedirectResponse(f"{MOVED[request.url.path[request.url.path.rindex('/') :]]}{request.url.query}", 308)


@page_route("/dag")
def dag_tab(request: Request, visitor: CurrentVisitor, dag_id: str) -> Response:
    visitor.require("GET", dag_id)
    with SOURCE.open() as warehouse:
        found = warehouse.runs.test_of_dag(dag_id)
    if found is None:
        raise NotFoundError(f"DAG {dag_id} has not recorded a run yet, or is not an accelerator test.")
    return _respond_test(visitor, {**request.query_params, "test": found})


@page_route("/dag-run")
def dag_run_tab(request: Request, visitor: CurrentVisitor, dag_id: str, run_id: str) -> Response:
    visitor.require("GET", dag_id)
    if dag_id in experiment_page.DAGS:
        return _respond_experiment(visitor, experiment_page.key_of_run(dag_id, run_id), request.query_params)
    with SOURCE.open() as warehouse:
        found = warehouse.runs.of_dag(dag_id, run_id)
    if found is None:
        raise NotFoundError(f"Run {run_id} of DAG {dag_id} has not been recorded: it may not have ended yet.")
    return _respond_run(visitor, found, request.query_params)


@page_route("/experiment")
def experiment(request: Request, visitor: CurrentVisitor) -> Response:
    return _respond_experiment(visitor, required(request.query_params, "key"), request.query_params)


@page_route("/metrics")
def metrics(visitor: CurrentVisitor) -> Response:
    """For Prometheus: the newest run of each test that the user may read."""
    return Response(SCRAPES.text(visitor.readable), media_type=CONTENT_TYPE)


@page_route("/assets/{name}")
def asset(name: str, v: str = "") -> Response:
    """Browsers keep it for a year if the address names its content.

    An address with another hash comes from a page of another version, during an upgrade of several servers: keeping
    this content under that address would break the page.
    """
    if name not in ASSETS:
        raise NotFoundError("There is no such file.")
    headers = {"Cache-Control": "private, max-age=31536000, immutable"} if v == asset_hash(name) else None
    return FileResponse(ASSETS[name], headers=headers)


@page_route("/icon.svg")
def icon() -> Response:
    return FileResponse(Path(__file__).parent / "icon.svg", media_type="image/svg+xml")


@page_route("/{rest:path}")
def unknown_page(rest: str) -> Response:
    raise NotFoundError(f"There is no page {rest}.")


def _respond_test(visitor: Visitor, query: Mapping[str, str]) -> Response:
    name = required(query, "test")
    with SOURCE.open() as warehouse:
        newest = warehouse.runs.latest(name)
        dag = newest.dag if newest else name
        visitor.require("GET", dag)
        page = page_of_test(warehouse, query, _reader(visitor))
    token = access.token(visitor.id)
    return _respond(page, query, name, csrf_token=token, may_change=visitor.may("PUT", dag), done=_done(query))


def _done(query: Mapping[str, str]) -> dict[str, str]:
    """What a form has done, and what its undoing needs."""
    text = DONE.get(query.get("done", ""), "")
    return {"text": text, "at": query.get("at", ""), "test": query.get("undo") or query.get("test", "")} if text else {}


def _readable_run(warehouse: Warehouse, visitor: Visitor, key: str) -> JobRow:
    found = warehouse.runs.get(key)
    if found is None:
        raise NotFoundError("There is no such run in this deployment, or it was not recorded.")
    visitor.require("GET", found.dag)
    return found


def _respond_run(visitor: Visitor, found: JobRow, query: Mapping[str, str]) -> Response:
    visitor.require("GET", found.dag)
    with SOURCE.open() as warehouse:
        page = page_of_run(warehouse, found, query, _reader(visitor))
    may_search = visitor.may("POST", BISECT) and visitor.may("POST", found.dag)
    return _respond(page, query, found.uuid, csrf_token=access.token(visitor.id), may_search=may_search)


def _respond_experiment(visitor: Visitor, key: str, query: Mapping[str, str]) -> Response:
    """For users who may read both its DAG and its test."""
    journal = experiment_page.journal_of_key(key)
    for dag_id in (dag_of(journal), test_of(journal)):
        visitor.require("GET", dag_id)
    return _respond(experiment_page.page_of_experiment(key, journal), query, f"experiment-{key}")


def _respond_of_tests(page_of: PageOfTests, request: Request, visitor: Visitor, name: str) -> Response:
    query = request.query_params
    with SOURCE.open() as warehouse:
        page = page_of(warehouse, query, _reader(visitor))
    return _respond(page, query, name)


def _reader(visitor: Visitor) -> Reader:
    return Reader(datetime.now(UTC), LINKS, visitor.readable)


def _respond(page: Page, query: Mapping[str, str], name: str, **more: Any) -> Response:
    match choice(query, "format", ("html", "json", "csv")):
        case "json":
            return _json(page.document())
        case "csv":
            file = f"ml-metrics-{re.sub('[^A-Za-z0-9_-]', '_', name)[:80]}.csv"
            headers = {"Content-Disposition": f'attachment; filename="{file}"'}
            return Response(as_csv(page.table()), media_type="text/csv; charset=utf-8", headers=headers)
        case _:
            with SOURCE.open() as warehouse:
                banners = banners_of(warehouse, datetime.now(UTC))
            html = page.html(LINKS, query=query, banners=banners, **more)
            return StreamingResponse(html, media_type="text/html; charset=utf-8")


def _json(content: Any) -> Response:
    return Response(as_json(content), media_type="application/json")


def _error(request: Request, status: int, title: str, reason: str, login: str = "") -> Response:
    of_scripts = request.url.path.endswith(("/charts", "/sparklines", "/curves"))
    if request.query_params.get("format") == "json" or of_scripts:
        return JSONResponse({"error": f"{title}: {reason}"}, status_code=status)
    text = templates().get_template("notice.html").render(title=title, reason=reason, login=login, links=LINKS)
    return HTMLResponse(text, status_code=status)


@app.exception_handler(NotFoundError)
@app.exception_handler(MlMetricsError)
def failure(request: Request, error: Exception) -> Response:
    match error:
        case NotFoundError():
            return _error(request, 404, "Not found", str(error))
        case BadQueryError():
            return _error(request, 400, "Bad request", str(error))
        case _:
            # the reason names hosts, users and databases
            log.error("%s: the warehouse cannot be read: %s", request.url.path, error)
            reason = "The log of the API server has the reason."
            return _error(request, 503, "The warehouse cannot be read", reason)


@app.exception_handler(RequestValidationError)
def bad_request(request: Request, error: RequestValidationError) -> Response:
    problems = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
    return _error(request, 400, "Bad request", problems)


@app.exception_handler(AnyHTTPException)
def http_error(request: Request, error: HTTPException) -> Response:
    """A user who is not logged in gets a link to Airflow's login that leads back here."""
    here = f"{request.url.path}?{request.url.query}"
    login = with_query("../auth/login", next=here) if error.status_code == HTTPStatus.UNAUTHORIZED else ""
    return _error(request, error.status_code, HTTPStatus(error.status_code).phrase, str(error.detail), login)
