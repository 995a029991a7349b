"""The differences between the supported versions of Airflow and its providers. No other module depends on the version.

A name that has moved is imported from here, `from ml_metrics.airflow.versions import AirflowFailException`, and this
module imports a name from Airflow when it is first used. The floor is Airflow 3.1.7: tests/matrix/corners.toml lists
what is tested. When a version is dropped, the places after the first go, and a name with one place goes back to
its users.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it: a DAG file imports this module
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Any, NoReturn

    from airflow.dag_processing.dagbag import DagBag
    from airflow.providers.standard.operators.hitl import HITLOperator
    from airflow.providers.standard.triggers.hitl import HITLTrigger
    from airflow.sdk import CronTriggerTimetable, conf
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        AirflowTaskTimeout,
        DagRunTriggerException,
        TaskDeferred,
    )


_EXCEPTIONS = ("airflow.sdk.exceptions", "airflow.exceptions")  # 3.2, 3.1

PLACES: dict[str, tuple[str, ...]] = {
    "AirflowFailException": _EXCEPTIONS,
    "AirflowNotFoundException": _EXCEPTIONS,
    "AirflowSkipException": _EXCEPTIONS,
    "AirflowTaskTimeout": _EXCEPTIONS,
    "AsyncCallback": ("airflow.sdk.definitions.callback", "airflow.sdk.definitions.deadline"),  # 3.2, 3.1
    "CronTriggerTimetable": ("airflow.sdk", "airflow.timetables.trigger"),  # 3.2, 3.1
    "DagBag": ("airflow.dag_processing.dagbag", "airflow.models.dagbag"),  # 3.2, 3.1
    "DagRunTriggerException": _EXCEPTIONS,
    "TaskDeferred": _EXCEPTIONS,
    "conf": ("airflow.sdk", "airflow.configuration"),  # 3.2, 3.1
}
"""The modules that have each name, the newest version's first: an older place may still work there, with a warning."""


def __getattr__(name: str) -> object:
    if name not in PLACES:
        raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
    globals()[name] = found = find(name, PLACES[name])
    return found


def find(name: str, places: Sequence[str]) -> object:
    """Return what has a name in the first of the modules that has it. Raises ImportError if none has."""
    for place in places:
        try:
            return getattr(import_module(place), name)
        except (ModuleNotFoundError, AttributeError):
            continue
    from airflow import __version__

    raise ImportError(
        f"Airflow {__version__} has no {name} in {' or '.join(places)}: is this version supported? docs/releasing.md "
        "lists those that are"
    )


def deadline_interval(interval: timedelta) -> timedelta:
    """Return the interval of a deadline in the form that the running version can store.

    Airflow 3.3 stores a timedelta, too, but then cannot clear a failed run
    (https://github.com/apache/airflow/issues/70368). It takes a number of seconds, which older versions refuse.
    """
    from airflow import __version__

    return interval.total_seconds() if release_of(__version__) >= (3, 3) else interval  # type: ignore[return-value]


def is_paused(ti: Any, dag_id: str) -> bool:
    """Return whether a DAG is known to be paused. A task of Airflow 3.1 cannot ask."""
    ask = getattr(ti, "get_dag", None)
    return bool(ask and ask(dag_id).is_paused)


NOT_WAITED_FOR: dict[str, object] = {
    "logical_date": None,
    "reset_dag_run": False,
    "skip_when_already_exists": True,
    "wait_for_completion": False,
    "allowed_states": [],
    "failed_states": [],
    "poke_interval": 60,
    "deferrable": False,
}
"""The options of a run that is started once and left alone."""


def run_to_trigger(
    dag_id: str, run_id: str, conf: Mapping[str, object], *, note: str, **more: object
) -> DagRunTriggerException:
    """The exception that starts another run from a task. Airflow 3.1 has no note for it."""
    from inspect import signature

    trigger = __getattr__("DagRunTriggerException")
    run = {"trigger_dag_id": dag_id, "dag_run_id": run_id, "conf": dict(conf), **NOT_WAITED_FOR, **more}
    if "note" in signature(trigger).parameters:  # type: ignore[arg-type]
        run["note"] = note
    return trigger(**run)  # type: ignore[operator, no-any-return]


def wait_for_answer(task: HITLOperator, trigger: HITLTrigger, kwargs: dict[str, Any], timeout: timedelta) -> NoReturn:
    """Leave the worker until a person has answered the question of a task, or for so long.

    `execute_complete` then gets the answer, or an event whose `error_type` is `timeout`. The question stays as it is.
    Airflow 3.3 has a state of tasks for it; before, the trigger looks for the answer.
    """
    then: dict[str, Any] = {"method_name": "execute_complete", "kwargs": kwargs}
    try:
        from airflow.sdk.exceptions import TaskAwaitingInput
    except ImportError:
        task.defer(trigger=trigger, **then)
    raise TaskAwaitingInput(timeout=timeout, **then)


@cache
def without_events_on_startup() -> dict[str, bool]:
    """Empty with the Kubernetes provider of Airflow 3.2, and of Composer in August 2026, which has no such option."""
    from inspect import signature

    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

    option = "log_events_on_startup"
    return {option: False} if option in signature(KubernetesPodOperator.__init__).parameters else {}


def release_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
