"""All that depends on the version of Airflow and its providers: names that move, and names that nobody promises.

A name is imported from here, `from ml_metrics.airflow.versions import AirflowFailException`, and this module imports it
when it is first used. A name that the installed version lacks is an ImportError that says which it is, where a process
first needs it: the DAG processor and a worker when they import the operators, the triggerer with the triggers. Nothing
is switched off instead. The floor is Airflow 3.1.7: tests/matrix/corners.toml lists what is tested. When a version is
dropped, the places after the first go, and a promised name with one place goes back to its users.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

TYPE_CHECKING = False  # as type checkers know it: a DAG file imports this module
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from typing import Any, NoReturn, TypeVar

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

    Class = TypeVar("Class", bound=type)

_EXCEPTIONS = ("airflow.sdk.exceptions", "airflow.exceptions")  # 3.2, 3.1
_RESOURCES = "airflow.api_fastapi.auth.managers.models.resource_details"
_SECURITY = "airflow.api_fastapi.core_api.security"
_DEADLINE = "airflow.sdk.definitions.deadline"

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
NAMES: dict[str, tuple[str, str]] = {
    "AccessView": ("the permission to see plugins", _RESOURCES),
    "DagAccessEntity": ("the permission to start a run from the dashboard", _RESOURCES),
    "DagDetails": ("the DAG that a permission is for", _RESOURCES),
    "DagModel": ("the team of a DAG, and whether it is paused, on a page", "airflow.models.dag"),
    "DagRun": ("`ml-metrics run` follows a run that a scheduler does", "airflow.models.dagrun"),
    "DagRunTriggeredByType": ("who started a run from the dashboard", "airflow.utils.types"),
    "DeadlineAlert": ("the alert for overdue runs; Airflow 3.1 offers it nowhere else", _DEADLINE),
    "DeadlineReference": ("as DeadlineAlert", _DEADLINE),
    "Job": (
        "`preloading.py` knows a process that forks others by this name",
        "airflow.jobs.job",
    ),
    "ParamsDict": ("parameters of a DAG that are not validated once for each task", "airflow.sdk.definitions.param"),
    "TaskRunnerMarker": ("as Job: the process of a task", "airflow.sdk.execution_time.task_runner"),
    "TRIGGER_FAIL_REPR": ("the method that a task continues with if its trigger failed", "airflow.sdk.bases.operator"),
    "get_airflow_health": (
        "the doctor and `ml-metrics run` ask which processes run",
        "airflow.api.common.airflow_health",
    ),
    "get_auth_manager": ("what a visitor of the dashboard may do", "airflow.api_fastapi.app"),
    "get_custom_secret_backend": ("`core/airflow_options.py`, a floor below, imports it", "airflow.configuration"),
    "get_user": ("the visitor of the dashboard", _SECURITY),
    "redact": ("no password of a connection is saved or shown", "airflow.sdk.log"),
    "requires_access_view": ("the dashboard needs a login", _SECURITY),
    "trigger_dag": ("the dashboard and `ml-metrics run` start a run", "airflow.api.common.trigger_dag"),
    "upsert_hitl_detail": ("a question is shown before its task waits", "airflow.sdk.execution_time.hitl"),
}
"""What Airflow does not promise to keep: each with what it is needed for, and its module."""

_KUBERNETES = "airflow.providers.cncf.kubernetes"
_POD_OPERATOR = f"{_KUBERNETES}.operators.pod.KubernetesPodOperator"
_POD_TRIGGER = f"{_KUBERNETES}.triggers.pod.KubernetesPodTrigger"
_GKE = "airflow.providers.google.cloud.operators.kubernetes_engine"

MEMBERS: dict[str, dict[str, str]] = {
    "airflow.sdk.bases.operator.BaseOperator": {
        "defer": "a task waits for a limited time",
        "render_template_fields": "templates know the parameters and dates of a run, and no connection",
        "resume_execution": "a task continues although its trigger failed",
    },
    f"{_KUBERNETES}.hooks.kubernetes.KubernetesHook": {
        "_get_default_client": "the usual kubeconfig is checked",
        "_get_field": "a kubeconfig that was checked is not read again",
        "get_conn": "the kubeconfig of a connection is checked",
        "get_connection": "a task without a connection configures no database model",
        "get_namespace": "the namespace of a connection",
    },
    _POD_OPERATOR: {
        "_incluster_namespace": "the namespace of Airflow's own pod",
        "build_pod_request_obj": "a pod has what administrators add to each",
        "client": "the operator's requests to the cluster",
        "convert_config_file_to_dict": "the triggerer gets the kubeconfig that was checked",
        "hook": "the operator connects with what was checked",
        "invoke_defer_method": "the triggerer watches the pod",
        "on_kill": "a pod ends with its task",
        "trigger_reentry": "a task continues after its pod",
    },
    _POD_TRIGGER: {
        "run": "an event waits until the scheduler knows that its task does",
        "serialize": "the triggerer finds the trigger of this package",
    },
    f"{_GKE}.GKEOperatorMixin": {"cluster_info": "a missing endpoint of a cluster is an error that names it"},
    "airflow.providers.standard.operators.hitl.HITLOperator": {"serialized_params": "the form of a question"},
    "airflow.providers.standard.triggers.hitl.HITLTrigger": {
        "run": "as that of KubernetesPodTrigger",
        "serialize": "as that of KubernetesPodTrigger",
    },
}
"""What classes of this package replace in a class, or call."""

ATTRIBUTES: dict[str, dict[str, str]] = {
    _POD_OPERATOR: {"_config_dict": "the kubeconfig that the triggerer gets"},
    _POD_TRIGGER: {"_fired_event": "a user who ends a task while its event waits ends the pod, too"},
}
"""What each object of a class has from its beginning, and classes of this package read or set."""


def __getattr__(name: str) -> Any:
    places = PLACES.get(name) or NAMES.get(name, ("",))[1:]
    if not places:
        raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
    for place in places:
        try:
            globals()[name] = found = getattr(import_module(place), name)
        except (ModuleNotFoundError, AttributeError):
            continue
        return found
    from airflow import __version__

    raise ImportError(f"Airflow {__version__} has no {name} in {' or '.join(places)}: {UNSUPPORTED}")


UNSUPPORTED = "is this version of Airflow and its providers supported? docs/releasing.md lists those that are"


def missing() -> list[str]:
    """What the installed version lacks of all that is listed, but for classes of providers that are not installed."""
    lacked = []
    for name, (why, module) in NAMES.items():
        try:
            __getattr__(name)
        except ImportError:
            lacked.append(f"{module}.{name} ({why})")
    for path, names in MEMBERS.items():
        module, _, name = path.rpartition(".")
        try:
            found = getattr(import_module(module), name, None)
        except ImportError:
            if find_spec(".".join(module.split(".")[:3])):
                lacked.append(path)
        else:
            lacked += [f"{path}.{member} ({why})" for member, why in names.items() if not hasattr(found, member)]
    return lacked


def checked(ours: Class) -> Class:
    """Return the class. Raises ImportError if a class that it extends lacks a listed member.

    Python takes a method for a new one if the name of the replaced one is gone: nobody calls it, and what it checks is
    no longer checked.
    """
    _check(ours, None, MEMBERS)
    return ours


def check_attributes(made: object) -> None:
    """Raise ImportError if an object lacks a listed attribute after `__init__` of the class that has it."""
    _check(type(made), made, ATTRIBUTES)


def _check(ours: type, made: object | None, listed: dict[str, dict[str, str]]) -> None:
    for theirs in ours.__mro__:
        path = f"{theirs.__module__}.{theirs.__qualname__}"
        owner, names = made or theirs, listed.get(path, {})
        if gone := [f"{name} ({why})" for name, why in names.items() if not hasattr(owner, name)]:
            raise ImportError(f"{path} has no {', '.join(gone)}, which ML Metrics needs: {UNSUPPORTED}")


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
    if "note" in signature(trigger).parameters:
        run["note"] = note
    return trigger(**run)  # type: ignore[no-any-return]


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
