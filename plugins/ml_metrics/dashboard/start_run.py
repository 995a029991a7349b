"""Starts a run of a DAG of the product, as its trigger form does.

Airflow 3 has no address that opens a trigger form with its fields filled in
(https://github.com/apache/airflow/issues/54800), so a button of a page starts the run. The names imported here are
internal to Airflow, and may move.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

if TYPE_CHECKING:
    from collections.abc import Mapping


def start_run(dag_id: str, form: Mapping[str, Any], user: str) -> str:
    """Start a run, and return its id. The caller has checked the user's permissions."""
    try:
        from airflow.api.common.trigger_dag import trigger_dag
        from airflow.models.dag import DagModel
        from airflow.utils.types import DagRunTriggeredByType
    except ImportError as error:
        reason = f"This version of Airflow does not let the dashboard start a run: trigger {dag_id} in Airflow."
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
