"""All names that Airflow and its providers do not promise to keep, each with what it is needed for.

No other module imports one of them, and each class that replaces or calls a listed member is `checked`. A name that the
installed version lacks is an ImportError that says which it is, where a process first needs it: the DAG processor and
a worker when they import the operators, the triggerer with the triggers. Nothing is switched off instead.
"""

from __future__ import annotations

from importlib.util import find_spec

from ml_metrics.airflow.versions import find

TYPE_CHECKING = False  # as type checkers know it: a DAG file imports this module
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Class = TypeVar("Class", bound=type)

_RESOURCES = "airflow.api_fastapi.auth.managers.models.resource_details"
_SECURITY = "airflow.api_fastapi.core_api.security"
_DEADLINE = "airflow.sdk.definitions.deadline"

NAMES: dict[str, tuple[str, str]] = {
    "AccessView": (_RESOURCES, "the permission to see plugins"),
    "DagAccessEntity": (_RESOURCES, "the permission to start a run from the dashboard"),
    "DagDetails": (_RESOURCES, "the DAG that a permission is for"),
    "DagModel": ("airflow.models.dag", "the team of a DAG, and whether it is paused, on a page"),
    "DagRun": ("airflow.models.dagrun", "`ml-metrics run` follows a run that a scheduler does"),
    "DagRunTriggeredByType": ("airflow.utils.types", "who started a run from the dashboard"),
    "DeadlineAlert": (_DEADLINE, "the alert for overdue runs; Airflow 3.1 offers it nowhere else"),
    "DeadlineReference": (_DEADLINE, "as DeadlineAlert"),
    "Job": (
        "airflow.jobs.job",
        "`preloading.py` recognises a process that forks others by this name, without importing it",
    ),
    "ParamsDict": ("airflow.sdk.definitions.param", "parameters of a DAG that are not validated once for each task"),
    "TaskRunnerMarker": ("airflow.sdk.execution_time.task_runner", "as Job: the process of a task"),
    "TRIGGER_FAIL_REPR": ("airflow.sdk.bases.operator", "the method that a task continues with if its trigger failed"),
    "get_airflow_health": (
        "airflow.api.common.airflow_health",
        "the doctor tells this Airflow from another one, and `ml-metrics run` whether a scheduler runs",
    ),
    "get_auth_manager": ("airflow.api_fastapi.app", "what a visitor of the dashboard may do"),
    "get_custom_secret_backend": ("airflow.configuration", "`core/airflow_options.py`, a floor below, imports it"),
    "get_user": (_SECURITY, "the visitor of the dashboard"),
    "redact": ("airflow.sdk.log", "no password of a connection is saved or shown"),
    "requires_access_view": (_SECURITY, "the dashboard needs a login"),
    "trigger_dag": ("airflow.api.common.trigger_dag", "the dashboard and `ml-metrics run` start a run"),
    "upsert_hitl_detail": ("airflow.sdk.execution_time.hitl", "a question is shown before its task waits"),
}
"""Each with its module. `from ml_metrics.airflow.private import redact` imports that on first use."""

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
    if name not in NAMES:
        raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
    globals()[name] = found = find(name, NAMES[name][:1])
    return found


def missing() -> list[str]:
    """What the installed version lacks of all that is listed, but for classes of providers that are not installed."""
    lacked = []
    for name, (module, why) in NAMES.items():
        try:
            find(name, (module,))
        except ImportError:
            lacked.append(f"{module}.{name} ({why})")
    for path, names in MEMBERS.items():
        module, _, name = path.rpartition(".")
        try:
            found = find(name, (module,))
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
            raise ImportError(
                f"{path} has no {', '.join(gone)}, which ML Metrics needs: is this version of Airflow and its "
                "providers supported? docs/releasing.md lists those that are"
            )
