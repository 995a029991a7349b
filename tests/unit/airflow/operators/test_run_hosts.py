"""How the task of a workload on several hosts waits: in the triggerer, with triggers that Airflow itself has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from ml_metrics import TestDefinition
from ml_metrics.airflow.clusters.outcome import INDEX, Hosts, Stage
from ml_metrics.airflow.operators.attempts import mark_attempt_created, start_attempt
from ml_metrics.airflow.operators.chosen_operator import workload_operator
from ml_metrics.airflow.operators.gke import RunHostsOnGke
from ml_metrics.airflow.operators.run_hosts import FIRST_CHECK, LAST_CHECK, RunHosts, RunJobSet
from ml_metrics.airflow.versions import TaskDeferred
from ml_metrics.store.run_folder import RunFolder

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLUSTER = {"project": "p", "location": "l", "name": "c"}
POD_TRIGGER = "airflow.providers.cncf.kubernetes.triggers.pod.KubernetesPodTrigger"
GKE_TRIGGER = "airflow.providers.google.cloud.triggers.kubernetes_engine.GKEStartPodTrigger"
TIMER = "airflow.providers.standard.triggers.temporal.DateTimeTrigger"


def operator(**more: Any) -> Any:
    content = {"name": "t", "image": "i", "command": ["x"], "hosts": 2, "namespace": "ns", "startup_timeout": "1h"}
    test = TestDefinition.model_validate({**content, **more})
    if test.cluster is None:
        made: Any = RunHosts(task_id="run_workload", test=test, deferrable=True, kubernetes_conn_id=None)
        made.convert_config_file_to_dict = lambda: setattr(made, "_config_dict", {"clusters": []})
        return made
    made = RunHostsOnGke(task_id="run_workload", test=test, deferrable=True)
    made.__dict__["cluster_info"] = ("https://cluster", "authority")
    return made


def hosts(*running: bool, since: timedelta = timedelta(), suspend: bool = False) -> Hosts:
    at = (datetime.now(UTC) - since).isoformat()
    job = {
        "metadata": {"name": "j", "namespace": "ns", "creationTimestamp": at},
        "spec": {"completions": 2, "suspend": suspend},
    }
    ended = {"terminated": {"exitCode": 0, "startedAt": at, "finishedAt": at}}
    pods = [
        {
            "metadata": {"name": f"j-{host}", "annotations": {INDEX: str(host)}},
            "status": {
                "containerStatuses": [{"name": "base", "state": {"running": {"startedAt": at}} if runs else ended}]
            },
        }
        for host, runs in enumerate(running)
    ]
    return Hosts(job, tuple(pods))


def deferred(task: Any, state: Hosts) -> TaskDeferred:
    context: Any = {"ti": SimpleNamespace(start_date=datetime.now(UTC))}
    with pytest.raises(TaskDeferred) as raised:
        task._defer(context, state)
    return raised.value


def pause_of(end: TaskDeferred) -> float:
    path, options = end.trigger.serialize()
    assert (path, end.method_name) == (TIMER, "resume")
    return float((options["moment"] - datetime.now(UTC)).total_seconds())


@pytest.mark.parametrize(("more", "path"), [({}, POD_TRIGGER), ({"cluster": CLUSTER}, GKE_TRIGGER)])
def test_a_running_workload_holds_no_worker_until_a_host_ends(more: dict[str, Any], path: str) -> None:
    end = deferred(operator(**more), hosts(False, True))
    found, options = end.trigger.serialize()
    assert found == path, "a trigger that each triggerer has, with or without plugins"
    assert (options["pod_name"], options["pod_namespace"]) == ("j-1", "ns"), "a host that still runs"
    assert (options["logging_interval"], options["get_logs"]) == (None, False), "it does not wake up for lines of logs"
    assert end.method_name == "trigger_reentry"
    assert end.timeout is not None
    assert end.timeout > timedelta(hours=1)


def test_a_provider_that_sets_no_limit_waits_no_longer_than_the_task_may_run() -> None:
    task = operator()
    with pytest.raises(TaskDeferred) as raised:
        task.defer(trigger=TimeDeltaTrigger(timedelta(hours=1)), method_name="resume")
    assert raised.value.timeout == task.max_duration


def test_the_triggerer_gets_the_kubeconfig_that_was_checked() -> None:
    _, options = deferred(operator(), hosts(True, True)).trigger.serialize()
    assert options["config_dict"] == {"clusters": []}


@pytest.mark.parametrize(
    ("waited", "pause"),
    [
        (timedelta(), FIRST_CHECK),
        (timedelta(minutes=1), timedelta(minutes=1)),
        (timedelta(minutes=30), LAST_CHECK),
        (timedelta(minutes=59, seconds=50), timedelta(seconds=10)),
        (timedelta(hours=2), timedelta(seconds=1)),
    ],
)
@pytest.mark.parametrize("queued", [False, True])
def test_hosts_that_do_not_run_yet_are_looked_at_ever_more_seldom(
    waited: timedelta, pause: timedelta, queued: bool
) -> None:
    state = hosts(True, since=waited, suspend=queued)
    assert state.stage is (Stage.QUEUED if queued else Stage.STARTING)
    assert pause_of(deferred(operator(), state)) == pytest.approx(pause.total_seconds(), abs=2)


def test_a_trigger_that_fails_is_replaced_by_a_timer_for_once(capsys: pytest.CaptureFixture[str]) -> None:
    task, calls = operator(), []
    task.execute = calls.append
    context: Any = {"ti": SimpleNamespace(start_date=datetime.now(UTC))}
    task.trigger_reentry(context, {"status": "error", "message": "403"})
    assert "the triggerer no longer watches the pod: 403" in capsys.readouterr().out
    assert pause_of(deferred(task, hosts(True, True))) == pytest.approx(FIRST_CHECK.total_seconds(), abs=2)
    task.trigger_reentry(context, {"status": "success"})
    assert "no longer watches" not in capsys.readouterr().out
    assert deferred(task, hosts(True, True)).trigger.serialize()[0] == POD_TRIGGER
    assert calls == [context, context]


def test_a_trigger_that_dies_or_times_out_does_not_fail_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    task, calls = operator(), []
    task.execute = calls.append
    context: Any = {}
    task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    task.resume_execution("__fail__", None, context)
    shown = capsys.readouterr().out
    assert "no longer watches the pod: Trigger timeout" in shown
    assert "no longer watches the pod: unknown reason" in shown
    task.resume_execution("resume", {"event": None}, context)
    assert calls == [context] * 3, "the cluster is asked how the hosts are"


class NoObjects:
    """The objects of a run in a cluster that has none of them any more."""

    removed = 0

    def newest_job(self) -> None:
        return None

    def remove_all(self) -> None:
        self.removed += 1


@pytest.mark.parametrize("created", [True, False])
def test_a_job_that_was_deleted_while_the_triggerer_waited_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created: bool
) -> None:
    folder, cluster, starts = RunFolder(str(tmp_path)), NoObjects(), []
    context: Any = {"ti": SimpleNamespace(max_tries=3)}
    pending = start_attempt(folder, context["ti"], "i")
    if created:
        mark_attempt_created(folder, pending)
    monkeypatch.setattr("ml_metrics.airflow.operators.run_hosts.folder_of", lambda *_: folder)
    monkeypatch.setattr("ml_metrics.airflow.operators.workload_base.folder_of", lambda *_: folder)
    task = operator()
    task._objects, task._start = lambda: cluster, starts.append
    task._find_or_start(context)
    assert (task.created, len(starts), cluster.removed) == ((True, 0, 0) if created else (False, 1, 1))


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "RunHosts"),
        ({"hosts": 1}, "RunWorkload"),
        ({"hosts": 1, "job_set": {"slices": 1}}, "RunJobSet"),
        ({"job_set": {"slices": 2}}, "RunJobSet"),
        ({"cluster": CLUSTER}, "RunHostsOnGke"),
        ({"cluster": CLUSTER, "job_set": {"slices": 2}}, "RunJobSetOnGke"),
    ],
)
def test_the_operator_of_a_test(more: dict[str, Any], name: str) -> None:
    content = {"name": "t", "image": "i", "command": ["x"], "hosts": 2}
    made = workload_operator(TestDefinition.model_validate({**content, **more}), task_id="run_workload")
    assert type(made).__name__ == name


@pytest.mark.parametrize(("kind", "end"), [(RunHosts, "-9999"), (RunJobSet, "-slice-1023-9999")])
def test_the_host_names_of_the_largest_workload_are_valid(kind: type[RunHosts], end: str) -> None:
    job = f"job-{'x' * kind.max_name_length}-{'0' * 8}-100"
    assert len(f"{job}{end}") <= 63
