"""What people do on a page: accept a level, say that they know, keep a test quiet. Their name is written beside it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from ml_metrics.dashboard import csrf
from ml_metrics.dashboard.access import LOGGED_IN, Visitor, visitor
from ml_metrics.dashboard.links import ServerLinks
from ml_metrics.dashboard.source import SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.warehouse import Warehouse

MAX_REASON_LENGTH = 1000
MAX_QUARANTINE = timedelta(days=366)

Asked = Annotated[str, Form(max_length=300)]
Words = Annotated[str, Form(max_length=MAX_REASON_LENGTH)]
Asker = Annotated[Visitor, Depends(visitor)]


def believed(request: Request, asker: Asker, csrf_token: Annotated[str, Form(max_length=300)] = "") -> None:
    """Refuse a form that another site sent."""
    if why := csrf.refusal(csrf_token, asker.id, request.headers):
        raise HTTPException(status_code=403, detail=why)


router = APIRouter(dependencies=[LOGGED_IN, Depends(believed)])


@router.post("/accept")
def accept(asker: Asker, test: Asked, metric: Asked, run: Asked, reason: Words) -> Response:
    """Declare the level that a metric has since a run to be meant."""

    def change(warehouse: Warehouse) -> str:
        job = warehouse.run(run)
        if job is None or job.test_name != test:
            raise HTTPException(status_code=404, detail="The test has no such run.")
        new = warehouse.accept(run, metric, reason=_reason(reason), by=asker.name)
        return "accepted" if new else "accepted-before"

    return _changed(asker, test, change)


@router.post("/acknowledge")
def acknowledge(asker: Asker, test: Asked, note: Words = "") -> Response:
    """Say that somebody knows of a test's trouble."""

    def change(warehouse: Warehouse) -> str:
        new = warehouse.acknowledge(test, by=asker.name, note=note.strip())
        return "acknowledged" if new else "nothing-to-acknowledge"

    return _changed(asker, test, change)


@router.post("/quarantine")
def quarantine(asker: Asker, test: Asked, until: Asked, reason: Words) -> Response:
    """Keep a test quiet up to and including a day (UTC); a day that is past ends the quiet."""
    now = datetime.now(UTC)
    try:
        end = datetime.combine(date.fromisoformat(until) + timedelta(days=1), time(), UTC)
    except (ValueError, OverflowError) as error:
        raise HTTPException(status_code=400, detail=f"{until!r} is no day; write it as 2026-03-31.") from error
    if end > now + MAX_QUARANTINE:
        raise HTTPException(status_code=400, detail="A quarantine lasts a year at most: it is to end by itself.")

    def change(warehouse: Warehouse) -> str:
        warehouse.quarantine(test, until=max(end, now) if end > now else now, reason=_reason(reason), by=asker.name)
        return "quarantined" if end > now else "released"

    return _changed(asker, test, change)


def _changed(asker: Visitor, test: str, change: Callable[[Warehouse], str]) -> Response:
    """Do it if they may, and lead back to the test."""
    with SOURCE.open() as warehouse:
        newest = warehouse.previous_run(test)
        asker.must("PUT", (newest.dag_id if newest else None) or test)
        if newest is None:
            raise HTTPException(status_code=404, detail="There is no such test.")
        done = change(warehouse)
    return RedirectResponse(ServerLinks().test(test, done=done), status_code=303)


def _reason(words: str) -> str:
    if not words.strip():
        raise HTTPException(status_code=400, detail="Say why: people will read it.")
    return words.strip()


DONE: dict[str, Any] = {
    "accepted": "The new level is accepted: the next runs are compared with it.",
    "accepted-before": "That level was accepted before; nothing changed.",
    "acknowledged": "Everybody sees now that you know.",
    "nothing-to-acknowledge": "There is nothing open that nobody knows of; nothing changed.",
    "quarantined": "The test is quiet now; it still runs and records.",
    "released": "The test is not quiet any more.",
}
"""What a page says after something was done."""
