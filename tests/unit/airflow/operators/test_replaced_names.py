"""What this package replaces in the provider's classes is there: Python takes a method for a new one if it is not."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module, reload
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.providers.cncf.kubernetes.utils.pod_manager import PodManager

from ml_metrics.airflow.operators.cluster import CheckedHook
from ml_metrics.airflow.operators.pod_trigger import PodTrigger
from ml_metrics.airflow.operators.run_hosts import RunHosts
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.operators.workload_base import PodWatch, WorkloadBase

REPLACED: dict[type, tuple[type, set[str]]] = {
    CheckedHook: (KubernetesHook, {"_get_default_client", "_get_field", "get_conn", "get_connection"}),
    PodTrigger: (KubernetesPodTrigger, {"run", "serialize"}),
    PodWatch: (PodManager, {"await_pod_completion", "container_is_running", "read_pod"}),
    WorkloadBase: (KubernetesPodOperator, {"convert_config_file_to_dict", "hook", "pod_manager"}),
    RunWorkload: (
        KubernetesPodOperator,
        {
            "build_pod_request_obj", "cleanup", "execute", "get_or_create_pod", "invoke_defer_method",
            "trigger_reentry",
        },
    ),
    RunHosts: (
        KubernetesJobOperator,
        {"build_job_request_obj", "execute", "pod", "resume_execution", "trigger_reentry"},
    ),
}  # fmt: skip
KEPT_BY_OTHERS = {"_abc_impl", "_is_protocol", "_BaseOperator__serialized_fields"}
"""What Python and Airflow keep in each class, Airflow from the first time that it stores a DAG."""


@pytest.mark.parametrize("ours", REPLACED)
def test_every_name_that_is_replaced_exists_and_is_in_the_list(ours: type) -> None:
    theirs, names = REPLACED[ours]
    assert {name for name in names if not hasattr(theirs, name)} == set(), "gone"
    common = {name for name in vars(ours) if not name.startswith("__") and hasattr(theirs, name)}
    assert common - KEPT_BY_OTHERS == names


@pytest.mark.parametrize(
    ("theirs", "name", "module"),
    [
        (KubernetesHook, "_get_field", "ml_metrics.airflow.operators.cluster"),
        (KubernetesHook, "_get_default_client", "ml_metrics.airflow.operators.cluster"),
        (KubernetesPodOperator, "convert_config_file_to_dict", "ml_metrics.airflow.operators.cluster"),
    ],
)
def test_a_version_in_which_a_check_would_be_switched_off_is_refused(
    theirs: type, name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = import_module(module)
    before = dict(vars(ours))
    monkeypatch.delattr(theirs, name)
    try:
        with pytest.raises(ImportError, match=f"{theirs.__name__} has no {name}, which ML Metrics replaces"):
            reload(ours)
    finally:
        vars(ours).update(before)


def test_a_trigger_that_could_not_hold_its_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = KubernetesPodTrigger.__init__
    options: dict[str, Any] = {
        "pod_name": "p", "pod_namespace": "n", "trigger_start_time": datetime.now(UTC), "base_container_name": "base",
    }  # fmt: skip
    assert PodTrigger(not_before=0.0, **options)

    def of_a_later_version(self: Any, **given: Any) -> None:
        made(self, **given)
        del self._fired_event

    monkeypatch.setattr(KubernetesPodTrigger, "__init__", of_a_later_version)
    with pytest.raises(ImportError, match=r"PodTrigger has no _fired_event"):
        PodTrigger(not_before=0.0, **options)

    monkeypatch.delattr(KubernetesPodTrigger, "cleanup")  # as in cncf-kubernetes 10.14, whose triggers end no pod
    assert PodTrigger(not_before=0.0, **options)
