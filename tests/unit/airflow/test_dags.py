from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.definitions.param import process_params
from airflow.utils.file import iter_airflow_imports
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.airflow import dags
from ml_metrics.alerts.watching import latest_expected
from ml_metrics.config.definition import MAX_PRIORITY
from ml_metrics.config.reading_time import LEAST
from ml_metrics.warehouse import known_test
from stored_dags import interval_of_stored
from warm_python import warm_python

TEST = TestDefinition(
    name="t",
    image="img",
    command=("train", "--epochs={{ params.epochs }}"),
    params={"epochs": {"default": 3, "type": "integer", "minimum": 1}},
    owner="a-new-user",
    schedule="0 3 * * *",
    timeout=timedelta(minutes=7),
    regression_test_config={
        "metric_success_conditions": {"acc_final": {"comparison": "greater", "success_threshold": {"fixed_value": 0.9}}}
    },
)


HOURS = st.integers(1, 100).map(lambda hours: timedelta(hours=hours))


@settings(max_examples=20)
@given(HOURS, HOURS, st.integers(0, 5), st.sampled_from([1, 2]))
def test_no_run_is_overdue_or_missed_while_its_tasks_may_still_wait(
    startup: timedelta, timeout: timedelta, retries: int, hosts: int
) -> None:
    update = {"startup_timeout": startup, "timeout": timeout, "retries": retries, "hosts": hosts}
    test = TEST.model_copy(update=update)
    dag = dags.accelerator_test(test)
    task = dag.get_task("run_workload")
    allowed = (retries + 1) * task.execution_timeout + task.retries * task.max_retry_delay
    assert task.execution_timeout > 2 * startup + timeout
    (deadline,) = dag.deadline
    assert interval_of_stored(deadline) == allowed + dags.TASK_TIMEOUT
    known = known_test(test)
    assert timedelta(seconds=known.longest) == allowed
    # what Airflow has created is reported by its deadline before it counts as missed
    scheduled = datetime(2026, 1, 19, 3, tzinfo=UTC)
    overdue = scheduled + interval_of_stored(deadline)
    assert latest_expected(known, overdue) != scheduled
    assert latest_expected(known, overdue + timedelta(hours=1, seconds=1)) == scheduled


def test_the_deadline_of_a_run_calls_the_message_that_it_is_overdue() -> None:
    (deadline,) = dags.accelerator_test(TEST).deadline
    assert deadline.callback.path == "ml_metrics.airflow.callbacks.notify_overdue"
    assert deadline.callback.kwargs == {"test": "t", "owner": "a-new-user", "emails": [], "quiet_until": ""}


def test_a_dag_has_six_tasks_of_which_the_last_decides() -> None:
    dag = dags.accelerator_test(TEST)
    assert dag.dag_id == "t"
    assert {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks} == {
        "run_workload": [],
        "collect_metrics": ["run_workload"],
        "measure_goodput": ["run_workload"],
        "judge_run": ["collect_metrics", "measure_goodput"],
        "load_history": ["judge_run"],
        "assert_success": ["load_history"],
    }
    rules = {task.task_id: task.trigger_rule.value for task in dag.tasks}
    assert rules.pop("run_workload") == "all_success"
    assert set(rules.values()) == {"all_done"}
    assert [task.task_id for task in dag.tasks if task.on_failure_callback] == ["assert_success"]


def test_what_a_test_file_turns_off_is_no_task_and_costs_no_process() -> None:
    off = {"goodput": {"enabled": False}, "metric_collection_config": {"write_to_bigquery": False}}
    dag = dags.accelerator_test(TestDefinition(name="t", image="i", command=("c",), **off))
    assert {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks} == {
        "run_workload": [],
        "collect_metrics": ["run_workload"],
        "judge_run": ["collect_metrics"],
        "assert_success": ["judge_run"],
    }


def test_what_is_nearer_to_a_verdict_goes_first_and_before_every_workload() -> None:
    """With a backlog, workloads of other tests would all start before the first message is sent."""
    dag = dags.accelerator_test(TEST.model_copy(update={"priority": MAX_PRIORITY}))
    assert {str(task.weight_rule) for task in dag.tasks} == {"absolute"}
    weights = {task.task_id: task.priority_weight for task in dag.tasks}
    assert weights["run_workload"] == MAX_PRIORITY
    for task in dag.tasks:
        assert all(weights[before] < weights[task.task_id] for before in task.upstream_task_ids)


def test_a_test_that_may_run_again_has_a_task_for_it_before_the_gate() -> None:
    condition = {"comparison": "less", "success_threshold": {"fixed_value": 1}}

    def upstream_of_the_gate(confirm: object) -> set[str]:
        conditions = {"metric_success_conditions": {"loss": {**condition, "confirm": confirm}}}
        test = TestDefinition(name="t", image="i", command=("c",), regression_test_config=conditions)
        return set(dags.accelerator_test(test).get_task("assert_success").upstream_task_ids)

    assert upstream_of_the_gate(2) == {"confirm_run"}
    assert upstream_of_the_gate({"runs": 2, "within": {"percent": 5}}) == {"confirm_run"}
    assert upstream_of_the_gate({"runs": 2, "by": "next"}) == {"load_history"}
    assert upstream_of_the_gate(1) == {"load_history"}
    suspicious = {"metric_success_conditions": {"loss": {"comparison": "less"}}, "rerun": {"beyond": 6}}
    test = TestDefinition(name="t", image="i", command=("c",), regression_test_config=suspicious)
    assert set(dags.accelerator_test(test).get_task("assert_success").upstream_task_ids) == {"confirm_run"}


FOR_EACH_TASK = """
import sys
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from ml_metrics.airflow.dags import accelerator_test
from ml_metrics.config.definition import TestDefinition
"""
FOR_ONE_TASK = """
with _airflow_parsing_context_manager(dag_id="t", task_id=sys.argv[1]):
    dag = accelerator_test(TestDefinition(name="t", image="i", command=("c",)))
print(dag.get_task("run_workload").task_type, "kubernetes" in sys.modules, *sorted(dag.task_ids))
"""


def test_only_the_process_of_the_workload_imports_kubernetes(tmp_path: Path) -> None:
    environment = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(Path(dags.__file__).parents[2])}
    tasks = "assert_success collect_metrics judge_run load_history measure_goodput run_workload"
    with warm_python(FOR_EACH_TASK, FOR_EACH_TASK + FOR_ONE_TASK, **environment) as python:
        for task, found in (("run_workload", "RunWorkload True"), ("judge_run", "WorkloadPlaceholder False")):
            done = python.run(task, folder=tmp_path)
            assert done.returncode == 0, done.output
            assert done.output.splitlines()[-1] == f"{found} {tasks}"


def test_the_dag_processor_preloads_the_pod_operator() -> None:
    imports = [
        name
        for file in Path(dags.__file__).parents[3].joinpath("dags").glob("*.py")
        for name in iter_airflow_imports(str(file))
    ]
    assert KubernetesPodOperator.__module__ in imports


def test_the_dag_documents_its_test() -> None:
    dag = dags.accelerator_test(TEST)
    assert "| `acc_final` | greater than 0.9 |" in dag.doc_md
    assert "a-new-user" in dag.doc_md
    assert dag.params.get_param("epochs").schema == {"type": "integer", "minimum": 1}
    assert dag.params.dump() == {"epochs": 3, "trial": None, "notify": None}
    assert dag.get_task("run_workload").owner == "a-new-user"
    assert dag.catchup is False


def test_only_the_dag_has_the_parameters() -> None:
    """Airflow checks each task's copy of them twice when it serialises a DAG, and asks the DAG for them anyway."""
    dag = dags.accelerator_test(TEST)
    assert not any(task.params for task in dag.tasks)
    for task in dag.tasks:
        assert process_params(dag, task, {"epochs": 7}, suppress_exception=False)["epochs"] == 7


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text("name: good\nimage: i\ncommand: [x]\n")
    (tmp_path / "bad.yaml").write_text("name: bad\nimage: i\ncommand: [x]\ntimout: 1h\n")
    return tmp_path


def test_an_invalid_file_becomes_a_dag_that_shows_its_problems(configs: Path) -> None:
    made = {dag.dag_id: dag for dag in dags.tests_from(str(configs))}
    assert set(made) == {"good", "bad"}
    assert "bad.yaml:4: timout: unknown key; did you mean 'timeout'?" in made["bad"].doc_md
    assert "config-error" in made["bad"].tags
    assert "bad.yaml:4" in (made["bad"].description or "")


def test_an_invalid_file_keeps_its_owner_and_cannot_forge_its_documentation(configs: Path) -> None:
    (configs / "bad.yaml").write_text('name: bad\nowner: vision-team\n"a`\\n# b`": 1\nimage: i\n')
    (dag,) = (dag for dag in dags.tests_from(str(configs)) if dag.dag_id == "bad")
    assert dag.get_task("read_test_file").owner == "vision-team"
    assert "\n#" not in (dag.doc_md or "")
    assert (dag.doc_md or "").count("`") == 2 * (dag.doc_md or "").count("\n- ")


def test_what_a_dag_imports_is_no_time_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first DAG of a process imports for longer than a file may take once others have used up the time."""

    def slow(_test: TestDefinition) -> None:
        ends = time.process_time() + 2 * LEAST
        while time.process_time() < ends:
            pass

    monkeypatch.setenv("AIRFLOW__ML_METRICS__READING_SECONDS", "0.01")
    monkeypatch.setattr(dags, "operator_class", slow)
    (tmp_path / "innocent.yaml").write_text("{name: innocent, image: i, command: [c]}")
    (dag,) = dags.tests_from(str(tmp_path))
    assert "run_workload" in dag.task_ids


def test_the_process_of_a_task_builds_only_its_own_dag(configs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted, made in (("good", ["good"]), ("bad", ["bad"]), ("of-another-dag-file", [])):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
        assert [dag.dag_id for dag in dags.tests_from(str(configs))] == made


PARSE = """
import runpy, sys
import airflow.sdk
from airflow.providers.cncf.kubernetes.operators import pod
before = set(sys.modules)
for file in sys.argv[1:]:
    runpy.run_path(file)
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""
MAY_BE_IMPORTED = {"ml_metrics", "airflow", "croniter", "yaml", *("cron_descriptor", "natsort", "packaging")}
"""What a DAG file may load beyond Airflow's SDK and its pod operator; `croniter` where a test has a schedule. The last
three belong to the timetables of Airflow 3.1."""


def test_parsing_the_files_of_the_repository_imports_little() -> None:
    project = Path(dags.__file__).parents[3]
    root = str(project / "include" / "metric_configs")
    environment = {**os.environ, "PYTHONPATH": str(project / "plugins"), "AIRFLOW__ML_METRICS__CONFIG_ROOT": root}
    command = [sys.executable, "-c", PARSE, *map(str, sorted(project.joinpath("dags").glob("*.py")))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split("\n")[-2].split()) - sys.stdlib_module_names
    assert "ml_metrics" in loaded
    assert loaded <= MAY_BE_IMPORTED


def test_dags_test_builds_dags_without_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dags.accelerator_test(TEST).deadline is not None
    monkeypatch.setattr("sys.argv", ["airflow", "dags", "test", "t"])
    assert dags.accelerator_test(TEST).deadline is None


def test_a_test_waits_in_the_configured_pool_of_its_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dags, "_configured_pools", lambda: ("gpu",))
    accelerated = TEST.model_copy(
        update={"accelerator": TestDefinition(name="x", image="i", command=("c",), accelerator="h100x8").accelerator}
    )
    assert dags.accelerator_test(accelerated).get_task("run_workload").pool == "gpu"
    assert dags.accelerator_test(TEST).get_task("run_workload").pool == "default_pool"
