from __future__ import annotations

from typing import Any

from ml_metrics.airflow.operators.logs import logs_of, secrets_of
from ml_metrics.measure import ContainerLog, Role

AT = "2026-01-02T03:04:05Z"


def ended(name: str, code: int = 0, reason: str = "Completed", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": AT}}, **more}


def pod(*statuses: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    names = [{"name": status["name"]} for status in statuses]
    return {
        "spec": {"containers": names, "initContainers": [{"name": one["name"]} for one in init], **spec},
        "status": {"containerStatuses": list(statuses), "initContainerStatuses": list(init)},
    }


def test_every_container_has_a_log_the_workload_first() -> None:
    found = logs_of(pod(ended("proxy"), ended("base", 1, "Error"), init=(ended("fetch"),)), 2)
    assert found == [
        ContainerLog(2, "base", Role.WORKLOAD, exit_code=1, reason="Error", finished_at=AT),
        ContainerLog(2, "proxy", Role.SIDECAR, exit_code=0, reason="Completed", finished_at=AT),
        ContainerLog(2, "fetch", Role.INIT, exit_code=0, reason="Completed", finished_at=AT),
    ]


def test_a_restarted_container_has_the_log_before_its_restart_too() -> None:
    before = {"lastState": ended("x", 3, "Error")["state"], "restartCount": 2}
    crashing = {"name": "base", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, **before}
    running = {"name": "base", "state": {"running": {"startedAt": AT}}, **before}
    assert [(log.previous, log.exit_code) for log in logs_of(pod(crashing), 1)] == [(True, 3)]
    assert [(log.previous, log.exit_code) for log in logs_of(pod(running), 1)] == [(False, None), (True, 3)]


def test_a_workload_that_never_started_is_stated() -> None:
    waiting = {"name": "base", "state": {"waiting": {"reason": "ContainerCreating"}}}
    sidecar = {**waiting, "name": "proxy"}
    assert [(log.container, log.note) for log in logs_of(pod(waiting, sidecar), 1)] == [
        ("base", "the container never started")
    ]
    (failed,) = logs_of(pod(ended("base", 128, "StartError")), 1)
    assert failed.note == "its program never started"
    (evicted,) = logs_of({"spec": {"containers": [{"name": "base"}]}, "status": {"phase": "Failed"}}, 1)
    assert evicted.note == "the container never started"


def test_an_empty_pod_has_no_logs() -> None:
    assert logs_of({}, 1) == []


def test_secrets_are_found_by_name_and_by_reference() -> None:
    env = [
        {"name": "API_KEY", "value": "literal-key"},
        {"name": "MAX_TOKEN", "value": "131072"},
        {"name": "MODEL_DIR", "value": "/data"},
        {"name": "FLEET_PIN", "value": "pin-of-the-fleet"},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "a-secret", "key": "hf"}}},
    ]
    whole = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "everything"}}]
    container = {"name": "base", "env": env, "envFrom": whole}
    values, unknown = secrets_of({"spec": {"containers": [container]}}, ["fleet_pin"])
    assert values == {"literal-key", "pin-of-the-fleet"}
    assert unknown == {"HF_TOKEN", "all of everything"}
