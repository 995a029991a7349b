"""The pages inside the Airflow UI. Every route asks who it is that asks, and what they may see."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException as AnyHTTPException

from ml_metrics.dashboard import csrf
from ml_metrics.dashboard.access import LOGGED_IN, Visitor, visitor
from ml_metrics.dashboard.actions import DONE, router
from ml_metrics.dashboard.headers import SecureHeaders
from ml_metrics.dashboard.links import ServerLinks, address
from ml_metrics.dashboard.page import NotFoundError, templates
from ml_metrics.dashboard.pages.all_tests import page_of_tests
from ml_metrics.dashboard.pages.compare import page_of_comparison
from ml_metrics.dashboard.pages.one_run import page_of_run
from ml_metrics.dashboard.pages.one_test import page_of_test
from ml_metrics.dashboard.query import BadQueryError, choice, required
from ml_metrics.dashboard.source import SOURCE
from ml_metrics.errors import MlMetricsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.dashboard.page import Page
    from ml_metrics.warehouse import JobRow

HERE = Path(__file__).parent
ASSETS = {path.name: path for path in (HERE / "assets").iterdir() if path.suffix in {".css", ".js"}}
FORMS = ("html", "json", "csv")
LINKS = ServerLinks()

app = FastAPI(title="ML Metrics", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[LOGGED_IN])
app.add_middleware(SecureHeaders)
app.include_router(router)
Asker = Annotated[Visitor, Depends(visitor)]


@app.get("/")
def tests(request: Request, asker: Asker) -> Response:
    """Every test that the visitor may read, against time."""
    query = request.query_params
    with SOURCE.open() as warehouse:
        page = page_of_tests(warehouse, query, readable=asker.readable, now=datetime.now(UTC), links=LINKS)
    return _answer(page, query, "tests")


@app.get("/test")
def test(request: Request, asker: Asker) -> Response:
    """One test."""
    return _test(asker, request.query_params)


@app.get("/run")
def run(request: Request, asker: Asker) -> Response:
    """One run."""
    query = request.query_params
    with SOURCE.open() as warehouse:
        found = warehouse.run(required(query, "run"))
        if found is None:
            raise NotFoundError("There is no such run, or it was not recorded.")
        return _run(asker, found, query)


@app.get("/compare")
def compare(request: Request, asker: Asker) -> Response:
    """Several tests and metrics side by side."""
    query = request.query_params
    with SOURCE.open() as warehouse:
        page = page_of_comparison(warehouse, query, readable=asker.readable, now=datetime.now(UTC), links=LINKS)
    return _answer(page, query, "compare")


@app.get("/dag")
def tab_of_a_dag(request: Request, asker: Asker, dag_id: str) -> Response:
    """The tab on a DAG's page."""
    asker.must("GET", dag_id)
    with SOURCE.open() as warehouse:
        found = warehouse.test_of_dag(dag_id)
    if found is None:
        raise NotFoundError(f"DAG {dag_id} has not recorded a run yet, or is no accelerator test.")
    return _test(asker, {**request.query_params, "test": found})


@app.get("/dag-run")
def tab_of_a_run(request: Request, asker: Asker, dag_id: str, run_id: str) -> Response:
    """The tab on the page of a DAG's run."""
    asker.must("GET", dag_id)
    with SOURCE.open() as warehouse:
        found = warehouse.run_of_dag(dag_id, run_id)
    if found is None:
        raise NotFoundError(f"Run {run_id} of DAG {dag_id} has not been recorded: it may not have ended yet.")
    return _run(asker, found, request.query_params)


@app.get("/assets/{name}")
def asset(name: str) -> Response:
    """Style sheets and scripts, from this package alone."""
    if name not in ASSETS:
        raise NotFoundError("There is no such file.")
    return FileResponse(ASSETS[name], headers={"Cache-Control": "private, max-age=3600"})


@app.get("/icon.svg")
def icon() -> Response:
    """The sign in the navigation."""
    return FileResponse(HERE / "icon.svg", media_type="image/svg+xml")


@app.get("/{rest:path}")
def anything_else(rest: str) -> Response:
    """What is not there."""
    raise NotFoundError(f"There is no page {rest}.")


def _test(asker: Visitor, query: Mapping[str, str]) -> Response:
    name = required(query, "test")
    with SOURCE.open() as warehouse:
        newest = warehouse.previous_run(name)
        dag = (newest.dag_id if newest else None) or name
        asker.must("GET", dag)
        page = page_of_test(warehouse, query, now=datetime.now(UTC), links=LINKS)
    done = DONE.get(query.get("done", ""), "")
    return _answer(page, query, name, csrf_token=csrf.token(asker.id), may_change=asker.may("PUT", dag), done=done)


def _run(asker: Visitor, found: JobRow, query: Mapping[str, str]) -> Response:
    asker.must("GET", found.dag_id or found.test_name)
    with SOURCE.open() as warehouse:
        page = page_of_run(warehouse, found, LINKS)
    return _answer(page, query, found.uuid)


def _answer(page: Page, query: Mapping[str, str], name: str, **more: Any) -> Response:
    """The page in the form that was asked for."""
    form = choice(query, "format", FORMS)
    if form == "html":
        return StreamingResponse(page.html(query=query, **more), media_type="text/html; charset=utf-8")
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in name)
    content, kind = (page.json(), "application/json") if form == "json" else (page.csv(), "text/csv; charset=utf-8")
    headers = {"Content-Disposition": f'attachment; filename="ml-metrics-{plain[:80]}.{form}"'}
    return Response(content, media_type=kind, headers=headers if form == "csv" else None)


def _notice(status: int, title: str, reason: str, login: str = "") -> HTMLResponse:
    text = templates().get_template("notice.html").render(title=title, reason=reason, login=login, links=LINKS)
    return HTMLResponse(text, status_code=status)


@app.exception_handler(NotFoundError)
def not_found(_: Request, error: NotFoundError) -> Response:
    """A page that says so."""
    return _notice(404, "Not found", str(error))


@app.exception_handler(BadQueryError)
def not_understood(_: Request, error: BadQueryError) -> Response:
    """A page that says what is wrong with the address."""
    return _notice(400, "This address makes no sense", str(error))


@app.exception_handler(RequestValidationError)
def not_complete(_: Request, error: RequestValidationError) -> Response:
    """The same for what FastAPI finds."""
    return _notice(400, "This address makes no sense", "; ".join(f"{e['loc'][-1]}: {e['msg']}" for e in error.errors()))


@app.exception_handler(MlMetricsError)
def unreachable(_: Request, error: MlMetricsError) -> Response:
    """A warehouse that does not answer."""
    return _notice(503, "The warehouse cannot be read", str(error))


@app.exception_handler(AnyHTTPException)
def refused(request: Request, error: HTTPException) -> Response:
    """Who is not logged in, as one who follows a link in a mail, is shown the way to Airflow's login and back."""
    title = HTTPStatus(error.status_code).phrase
    if request.method == "GET" and request.query_params.get("format") == "json":
        return Response(f'{{"error": "{title}"}}', status_code=error.status_code, media_type="application/json")
    here = f"{request.url.path}?{request.url.query}"
    login = address("../auth/login", next=here) if error.status_code == HTTPStatus.UNAUTHORIZED else ""
    return _notice(error.status_code, title, str(error.detail), login)
