"""The buttons of a page: decisions about an incident, a level or a test, and runs that a user starts.

Each stores the user's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from ml_metrics.core.values import as_utc, end_of_day
from ml_metrics.pipeline.experiments import BISECT, Source
from ml_metrics.ui.dashboard import access
from ml_metrics.ui.dashboard.access import LOGIN_REQUIRED, CurrentVisitor, Visitor
from ml_metrics.ui.dashboard.links import ServerLinks
from ml_metrics.ui.dashboard.source import SOURCE
from ml_metrics.warehouse import DEFINITION, JobRow, Warehouse


def start_run(dag_id: str, form: Mapping[str, Any], user: str) -> str:
    """Returns the run's id. The caller has checked the user's permissions."""
    try:
        from ml_metrics.airflow.versions import DagModel, DagRunTriggeredByType, trigger_dag
    except ImportError as error:
        reason = f"This version of Airflow does not let the dashboard start a run: trigger {dag_id} in Airflow. {error}"
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, reason) from error
    found = DagModel.get_current(dag_id)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"There is no DAG {dag_id}.")
    if found.is_paused:
        raise HTTPException(HTTPStatus.CONFLICT, f"DAG {dag_id} is paused, so a run would wait: unpause it first.")
    try:
        run = trigger_dag(
            dag_id, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=user, conf=dict(form), logical_date=None
        )
    except ValueError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{dag_id} cannot be started: {error}") from error
    if run is None:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, f"Airflow has not started {dag_id}.")
    return str(run.run_id)


ShortField = Annotated[str, Form(max_length=300)]
ReasonField = Annotated[str, Form(max_length=1000)]
TestsField = Annotated[list[ShortField], Form(min_length=1, max_length=100)]
MetricsField = Annotated[list[ShortField], Form(min_length=1, max_length=50)]
PageField = Annotated[Literal["test", "inbox", "incident"], Form()]
"""The page that shows the result of an action; `incident` is the inbox with the incident of the test alone."""


def check_form(
    request: Request, visitor: CurrentVisitor, csrf_token: Annotated[str, Form(max_length=300)] = ""
) -> None:
    if reason := access.rejection(csrf_token, visitor.id, request.headers):
        raise HTTPException(status_code=403, detail=reason)


router = APIRouter(dependencies=[LOGIN_REQUIRED, Depends(check_form)])


@router.post("/accept")
def accept(
    visitor: CurrentVisitor,
    test: ShortField,
    metric: MetricsField,
    run: ShortField,
    reason: ReasonField,
    page: PageField = "test",
) -> Response:
    with _open_for_change(visitor, test) as warehouse:
        if _run_of(warehouse, test, run).trial:
            raise HTTPException(status_code=400, detail="The run is a trial: later runs are not compared with it.")
        why = _required_reason(reason)
        new = [warehouse.acceptances.add(run, one, reason=why, by=visitor.name) for one in dict.fromkeys(metric)]
    return _to_page(page, test, "accepted" if any(new) else "accepted-before")


@router.post("/acknowledge")
def acknowledge(
    visitor: CurrentVisitor, test: TestsField, note: ReasonField = "", page: PageField = "test"
) -> Response:
    with _all_open_for_change(visitor, test) as subjects:
        at, by = _moment(subjects), visitor.name
        done = [one.incidents.acknowledge(name, by=by, note=note.strip(), at=at) for one, name in subjects]
    return (
        _to_page(page, test[0], "acknowledged", at) if any(done) else _to_page(page, test[0], "nothing-to-acknowledge")
    )


@router.post("/assign")
def assign(visitor: CurrentVisitor, test: TestsField, person: ShortField = "", page: PageField = "test") -> Response:
    """An empty person is nobody."""
    with _all_open_for_change(visitor, test) as subjects:
        at, person = _moment(subjects), person.strip()
        # a row that is replaced does not come back
        before = any(found.assigned_to for one, name in subjects if (found := one.incidents.find_open(name)))
        done = [one.incidents.assign(name, person, by=visitor.name, at=at) for one, name in subjects]
    what = ("assigned" if person else "unassigned") if any(done) else "nothing-open"
    return _to_page(page, test[0], what, at if what == "assigned" and not before else None)


@router.post("/assess")
def assess(
    visitor: CurrentVisitor,
    test: ShortField,
    answer: Annotated[Literal["regression", "no-regression"], Form()],
    incident: ShortField,
    reason: ReasonField = "",
    page: PageField = "test",
) -> Response:
    """An incident that was no regression is closed, if it is open."""
    is_regression = answer == "regression"
    note = reason.strip() if is_regression else _required_reason(reason)
    with _open_for_change(visitor, test) as warehouse:
        found = warehouse.incidents.find_open(test)
        if not is_regression and found is not None and found.opened_by == incident:
            # half a second, which no page needs
            from ml_metrics.airflow import load_mail_settings
            from ml_metrics.alerts import close_as_no_regression

            closed = close_as_no_regression(
                warehouse, test, by=visitor.name, reason=note, load_mail_settings=load_mail_settings
            )
            return _to_page(page, test, "closed-with-levels" if closed else "closed")
        if not warehouse.incidents.assess(test, incident, is_regression=is_regression, by=visitor.name, note=note):
            raise HTTPException(status_code=404, detail="The test has no such incident.")
    return _to_page(page, test, "assessed")


@router.post("/rerun")
def rerun(visitor: CurrentVisitor, test: ShortField, page: PageField = "test") -> Response:
    """Nothing is changed, so the run is not a trial."""
    with SOURCE.open() as warehouse:
        newest = warehouse.runs.latest(test)
    if newest is None:
        raise HTTPException(status_code=404, detail="There is no such test.")
    visitor.require("POST", newest.dag)
    start_run(newest.dag, {}, visitor.name)
    return _to_page(page, test, "started")


@router.post("/quarantine")
def quarantine(
    visitor: CurrentVisitor, test: TestsField, until: ShortField, reason: ReasonField, page: PageField = "test"
) -> Response:
    """Up to and including a day (UTC); a past day ends the quarantine."""
    now = datetime.now(UTC)
    try:
        end = end_of_day(date.fromisoformat(until))
    except ValueError as error:
        raise HTTPException(status_code=400, detail=f"{until!r} is not a date like 2026-03-31.") from error
    if end > now + timedelta(days=366):
        raise HTTPException(status_code=400, detail="A quarantine can last one year at most.")
    why, by = _required_reason(reason), visitor.name
    with ExitStack() as stack:
        opened = {name: stack.enter_context(_open_for_change(visitor, name)) for name in test}
        for name, warehouse in opened.items():
            warehouse.quarantines.set(name, until=max(end, now), reason=why, by=by, at=now)
    return _to_page(page, test[0], "quarantined", now) if end > now else _to_page(page, test[0], "released")


@router.post("/undo")
def undo(
    visitor: CurrentVisitor, test: ShortField, at: Annotated[datetime, Form()], page: PageField = "inbox"
) -> Response:
    """What the user did at a moment of the last hour, to all tests. It was theirs to do, and is theirs to undo."""
    if abs(datetime.now(UTC) - as_utc(at)) > timedelta(hours=1):
        raise HTTPException(status_code=400, detail="Only what was done within the last hour can be undone.")
    with _open_for_change(visitor, test) as warehouse:
        done = [one.undo(by=visitor.name, at=at) for one in (warehouse.incidents, warehouse.quarantines)]
    return _to_page(page, test, "undone" if any(done) else "nothing-to-undo")


@router.post("/search")
def search(
    visitor: CurrentVisitor, test: ShortField, metric: ShortField, run: ShortField, parameter: ShortField = "image"
) -> Response:
    """For the version that broke a metric of a run."""
    visitor.require("POST", BISECT)
    with SOURCE.open() as warehouse:
        job = _run_of(warehouse, test, run)
    visitor.require("POST", job.dag)
    form = {
        "test": test,
        "metric": metric,
        "source": Source.HISTORY,
        "bad": run,
        "parameter": parameter.strip() or "image",
    }
    start_run(BISECT, form, visitor.name)
    return _to_page("test", test, "searching")


def _run_of(warehouse: Warehouse, test: str, run: str) -> JobRow:
    job = warehouse.runs.get(run)
    if job is None or job.test_name != test:
        raise HTTPException(status_code=404, detail="The test has no such run.")
    return job


@contextmanager
def _open_for_change(visitor: Visitor, test: str) -> Iterator[Warehouse]:
    with SOURCE.open() as warehouse:
        newest = warehouse.runs.latest(test)
        visitor.require("PUT", newest.dag if newest else test)
        if newest is None and warehouse.incidents.find_open(f"{DEFINITION}{test}") is None:
            raise HTTPException(status_code=404, detail="There is no such test.")
        yield warehouse


@contextmanager
def _all_open_for_change(visitor: Visitor, tests: list[str]) -> Iterator[list[tuple[Warehouse, str]]]:
    """With what incidents of the tests may be about: their runs, and their files and DAGs."""
    with ExitStack() as stack:
        opened = [(stack.enter_context(_open_for_change(visitor, name)), name) for name in dict.fromkeys(tests)]
        yield [(warehouse, subject) for warehouse, name in opened for subject in (name, f"{DEFINITION}{name}")]


def _moment(subjects: list[tuple[Warehouse, str]]) -> datetime:
    """The time of what is done to all of them at once, by which it can be undone."""
    return max(warehouse.incidents.moment(name) for warehouse, name in subjects)


def _to_page(page: str, test: str, done: str, at: datetime | None = None) -> Response:
    """With the time of what was done if it can be undone."""
    links, more = ServerLinks(), {"done": done, "at": at.isoformat() if at else ""}
    if at and page == "inbox":
        more["undo"] = test
    addresses = {
        "inbox": links.inbox(**more),
        "incident": links.inbox(test=test, **more),
        "test": links.test(test, **more),
    }
    return RedirectResponse(addresses[page], status_code=303)


def _required_reason(text: str) -> str:
    if not text.strip():
        raise HTTPException(status_code=400, detail="A reason is required.")
    return text.strip()


DONE = {
    "accepted": "The new level is accepted: later runs are compared with it.",
    "accepted-before": "That level was already accepted; nothing changed.",
    "acknowledged": "Acknowledged.",
    "nothing-to-acknowledge": "There is no incident to acknowledge; nothing changed.",
    "assigned": "Assigned.",
    "unassigned": "Assigned to nobody.",
    "nothing-open": "No incident is open; nothing changed.",
    "closed": "The incident is closed as a false alarm.",
    "closed-with-levels": "The incident is closed as a false alarm, and the new level is accepted.",
    "assessed": "Your answer is stored.",
    "started": "A run has been started.",
    "quarantined": "Quarantined: it still runs and is recorded, and sends no alerts.",
    "undone": "Undone: everything is as before.",
    "nothing-to-undo": "There is nothing to undo; nothing changed.",
    "released": "The quarantine has ended.",
    "searching": f"A search has been started: its run of the DAG {BISECT} will have the answer.",
}
"""The notice that the page shows after each action."""
