"""Every name that Airflow and its providers do not promise is in one file, and a missing one is refused loudly."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from importlib import import_module, reload
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.sdk import BaseOperator

from ml_metrics import TestDefinition
from ml_metrics.airflow import versions as private
from ml_metrics.airflow.operators import gke
from ml_metrics.airflow.operators.pod_trigger import PodTrigger
from ml_metrics.airflow.versions import ATTRIBUTES, MEMBERS, NAMES, check_attributes

MODULES = [
    "answer_trigger", "cluster", "experiments", "gke", "pod_trigger", "run_workload", "tasks", "wait_for_decision",
]  # fmt: skip
"""The modules of operators that extend classes of Airflow."""
DOCUMENTED = {
    "execute",
    "execute_complete",
    "operator_extra_links",
    "template_fields",
    "template_ext",
    "template_fields_renderers",
    "test",
}
"""What Airflow tells those who write operators to define, and options of this package."""
KEPT_BY_OTHERS = {"_abc_impl", "_is_protocol", "_BaseOperator__serialized_fields"}
"""What Python and Airflow keep in each class, Airflow from the first time that it stores a DAG."""


def class_of(path: str) -> type:
    module, _, name = path.rpartition(".")
    found: type = getattr(import_module(module), name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name: str) -> None:
    why, module = NAMES[name]
    assert getattr(private, name) is getattr(import_module(module), name)
    assert why


@pytest.mark.parametrize("path", MEMBERS)
def test_every_member_is_there(path: str) -> None:
    assert [name for name in MEMBERS[path] if not hasattr(class_of(path), name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_every_member_that_is_replaced_is_in_the_list(module: str) -> None:
    ours = import_module(f"ml_metrics.airflow.operators.{module}")
    for one in vars(ours).values():
        if not inspect.isclass(one) or one.__module__ != ours.__name__:
            continue
        for theirs in (base for base in one.__mro__ if base.__module__.startswith("airflow.")):
            both = {name for name in vars(one) if not name.startswith("__")} & vars(theirs).keys()
            listed = {name for names in MEMBERS.values() for name in names}
            assert both - listed - DOCUMENTED - KEPT_BY_OTHERS == set(), f"{one.__name__} replaces them"


def test_every_attribute_is_there() -> None:
    cluster = {"project": "p", "location": "l", "name": "c"}
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["c"], "cluster": cluster})
    check_attributes(gke.RunWorkloadOnGke(test=test, task_id="run_workload"))
    check_attributes(PodTrigger(not_before=0.0, **options_of_a_trigger()))
    made = {KubernetesPodOperator, KubernetesPodTrigger}
    assert {class_of(path) for path in ATTRIBUTES} == made


def options_of_a_trigger() -> dict[str, Any]:
    return {
        "pod_name": "p", "pod_namespace": "n", "trigger_start_time": datetime.now(UTC), "base_container_name": "base",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("theirs", "name", "module"),
    [
        (BaseOperator, "resume_execution", "experiments"),
        (KubernetesHook, "_get_field", "cluster"),
        (KubernetesHook, "_get_default_client", "cluster"),
        (KubernetesPodOperator, "convert_config_file_to_dict", "run_workload"),
        (KubernetesPodOperator, "_incluster_namespace", "run_workload"),
    ],
)
def test_a_version_in_which_a_check_would_be_switched_off_is_refused(
    theirs: type, name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = import_module(f"ml_metrics.airflow.operators.{module}")
    before = dict(vars(ours))
    monkeypatch.delattr(theirs, name)
    try:
        with pytest.raises(ImportError, match=rf"{theirs.__name__} has no {name} \(.+\), which ML Metrics needs: is"):
            reload(ours)
    finally:
        vars(ours).update(before)


def test_a_name_that_has_moved_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMES, "redact", ("why", "airflow.sdk.no_such_module"))
    monkeypatch.delitem(vars(private), "redact", raising=False)
    with pytest.raises(ImportError, match=r"has no redact in airflow\.sdk\.no_such_module: is this version of Airflow"):
        _ = private.redact


def test_a_trigger_that_could_not_hold_its_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = KubernetesPodTrigger.__init__

    def of_a_later_version(self: Any, **given: Any) -> None:
        made(self, **given)
        del self._fired_event

    monkeypatch.setattr(KubernetesPodTrigger, "__init__", of_a_later_version)
    with pytest.raises(ImportError, match=r"KubernetesPodTrigger has no _fired_event"):
        PodTrigger(not_before=0.0, **options_of_a_trigger())

    monkeypatch.delattr(KubernetesPodTrigger, "cleanup")  # as in cncf-kubernetes 10.14, whose triggers end no pod
    assert PodTrigger(not_before=0.0, **options_of_a_trigger())
