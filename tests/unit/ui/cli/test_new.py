"""`ml-metrics new`: what it writes is a valid test file, and what is wrong leaves nothing behind."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.config.loading import load_tests
from ml_metrics.core.model import Run
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli
from unit.ui.cli.shell import Shell


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "my configs"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(folder))
    return folder


def test_options_become_a_test(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = """python3 -c 'print("a: b # c")'"""
    assert (
        cli.main(["new", "hello-cpu", "--image", "python:3.11", "--command", command, "--schedule", "0 3 * * *"]) == 0
    )
    loaded = load_tests(configs)
    assert not loaded.problems
    (test,) = loaded.tests
    assert (test.name, test.image, test.schedule) == ("hello-cpu", "python:3.11", "0 3 * * *")
    assert test.command == ("python3", "-c", 'print("a: b # c")')
    out = capsys.readouterr().out
    assert f"ml-metrics validate {shlex.quote(str(configs / 'hello-cpu.yaml'))}\n" in out
    assert "ml-metrics run hello-cpu" in out


def test_a_missing_folder_of_test_files_says_what_to_do(configs: Path, ml: Shell) -> None:
    configs.rmdir()
    refused = f"{configs}: the folder of test files does not exist: create it, or set [ml_metrics] config_root"
    assert refused in ml("new", "mine", "--command", "true", code=2)


def test_a_finished_run_gives_program_and_conditions(configs: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "runs")
    folder = RunFolder.of(Run("old", "old", "r", "local"), root)
    content = {"image": "i:1", "command": ["train", "--steps={{ params.steps }}"], "params": {"steps": {"default": 5}}}
    folder.write("run", {"test_file": {**content, "owner": "vision"}})
    Path(folder.path, "train.jsonl").write_text(
        "".join(json.dumps({"step": step, "loss": 1 / step, "accuracy": 0.9, "odd": 1.0}) + "\n" for step in (1, 2))
    )
    assert cli.main(["new", "mine", "--from", str(folder.path)]) == 0
    (test,) = load_tests(configs).tests
    assert (test.image, test.owner, test.command) == ("i:1", "vision", ("train", "--steps={{ params.steps }}"))
    conditions = test.regression_test_config.metric_success_conditions
    assert {name: str(one.comparison) for name, one in conditions.items()} == {
        "accuracy_final": "greater",
        "loss_final": "less",
        "total_wall_time": "less",
    }


def test_what_no_source_reads_is_read_by_the_new_file_or_named(tmp_path: Path, configs: Path, ml: Shell) -> None:
    run = tmp_path / "run"
    (run / "old").mkdir(parents=True)
    for name in ("bench.json", "old/bench.json"):
        (run / name).write_text('{"runs": [{"name": "decode", "p99_ms": 19.0}]}')
    (run / "report.txt").write_text("Requests per second: 652.5\n")
    (run / "train.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    result = {"backend": "sglang", "dataset_name": "random", "output_throughput": 507.9, "median_ttft_ms": 49.2}
    (run / "serve.jsonl").write_text(json.dumps({**result, "request_rate": 4.0, "completed": 9}) + "\n")
    explained = " ".join(ml("collect", "--explain", str(run)).split())
    assert explained.endswith(f"`ml-metrics new NAME --from {run}` writes a test file that reads and judges these")
    said = " ".join(ml("new", "mine", "--from", str(run), "--command", "c").split())
    end = f"not read: old/bench.json; `ml-metrics collect --explain {run}` shows how check it:"
    assert f"with 6 conditions {end}" in said
    (test,) = load_tests(configs).tests
    judged = test.regression_test_config
    wanted = {"decode/p99_ms", "log/requests_per_second_final", "loss_final", "total_wall_time"}
    assert judged.metric_success_conditions.keys() == wanted
    assert {name: str(one.comparison) for name, one in judged.curves.items()} == {
        "output_throughput": "greater",
        "median_ttft_ms": "less",
    }
    found = ml.json("collect", str(configs / "mine.yaml"), str(run))
    assert found["warnings"] == []
    names = {one["name"] for one in found["metrics"]}
    assert names >= {"curve/output_throughput", "curve/median_ttft_ms"} | wanted - {"total_wall_time"}


def cron_job(**container: Any) -> dict[str, Any]:
    """A CronJob as the older system's templates make it."""
    config = {
        "metric_collection_config": {"write_to_bigquery": True, "default_aggregation_strategies": ["final"]},
        "regression_test_config": {
            "metric_success_conditions": {
                "accuracy_final": {"comparison": "greater", "success_threshold": {"fixed_value": 0.9}},
                "total_wall_time": {"comparison": "less", "success_threshold": {"stddevs_from_mean": 5.0}},
            }
        },
    }
    publisher = {"name": "publisher", "image": "p:1", "env": [{"name": "METRIC_CONFIG", "value": json.dumps(config)}]}
    train = {
        "name": "train",
        "image": "gcr.io/mine/tensorflow:r2.2",
        "command": ["python3", "main.py", "--model_dir=$(OUTPUT_BUCKET)/mnist/$(JOB_NAME)"],
        "env": [{"name": "JOB_NAME", "valueFrom": {"fieldRef": {}}}, {"name": "STEPS", "value": "5"}],
        "envFrom": [{"configMapRef": {"name": "gcs-buckets"}}],
        "resources": {"requests": {"cpu": 2}, "limits": {"nvidia.com/gpu": 1}},
        **container,
    }
    pod = {"restartPolicy": "Never", "initContainers": [publisher], "containers": [train], "nodeSelector": {"a": "b"}}
    job = {
        "backoffLimit": 1,
        "activeDeadlineSeconds": 3600,
        "template": {"spec": pod, "metadata": {"labels": {"x": "y"}}},
    }
    spec = {"schedule": "0 */1 * * *", "jobTemplate": {"spec": job}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tf-mnist"}, "spec": spec}


def test_a_cron_job_of_the_older_system_becomes_a_test(configs: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "cronjob.yaml"
    manifest.write_text(json.dumps(cron_job()))
    assert cli.main(["new", "--from", str(manifest)]) == 0
    (test,) = load_tests(configs).tests
    assert (test.name, test.image, test.schedule) == ("tf-mnist", "gcr.io/mine/tensorflow:r2.2", "0 */1 * * *")
    assert test.command[-1] == "--model_dir=$(OUTPUT_BUCKET)/mnist/$(JOB_NAME)"
    assert (test.env, test.config_maps, test.init_containers) == ({"STEPS": "5"}, ("gcs-buckets",), ())
    assert (test.resources.cpu, test.resources.limits) == ("2", {"nvidia.com/gpu": "1"})
    assert (test.timeout.total_seconds(), test.retries, test.labels) == (3600, 1, {"x": "y"})
    assert test.pod == {"spec": {"nodeSelector": {"a": "b"}}}
    conditions = test.regression_test_config.metric_success_conditions
    assert conditions["accuracy_final"].success_threshold.fixed_value == 0.9
    assert conditions.keys() == {"accuracy_final", "total_wall_time"}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (cron_job(volumeMounts=[{"name": "data"}]), "volumeMounts of the container: remove it, and write it into"),
        (cron_job(envFrom=[{"secretRef": {"name": "s"}}]), "secretRef of the container"),
        (cron_job(env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {}}}]), "KEY of the container"),
        ({"kind": "Deployment", "spec": {}}, "is not a Job or CronJob with one container: KeyError: 'template'"),
        ([], "manifest.yaml"),
    ],
)
def test_what_no_test_file_can_say_is_not_left_out(
    manifest: Any, message: str, configs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.yaml").write_text(json.dumps(manifest))
    assert cli.main(["new", "--from", str(tmp_path / "manifest.yaml")]) != 0
    assert message in capsys.readouterr().err
    assert list(configs.iterdir()) == []


def test_a_manifest_is_no_test_file_and_nothing_would_read_its_variable(configs: Path) -> None:
    (configs / "a.yaml").write_text(json.dumps(cron_job()))
    (configs / "b.yaml").write_text("{name: b, image: i, command: [c], env: {METRIC_CONFIG: '{}'}}")
    publisher = "{name: p, image: i, env: [{name: METRIC_CONFIG, value: x}]}"
    (configs / "c.yaml").write_text(f"{{name: c, image: i, command: [c], init_containers: [{publisher}]}}")
    told = [str(problem) for problem in load_tests(configs).problems]
    assert len(told) == 3
    assert "ml-metrics new --from FILE" in told[0]
    assert all("nothing reads METRIC_CONFIG: remove it; `metric_collection_config`" in one for one in told[1:])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "give NAME and --command"),
        (["../x", "--command", "c"], "lower-case letters"),
        (["x", "--command", "a 'b"], "No closing quotation"),
        (["x", "--command", "c", "--schedule", "hourly-ish"], "schedule: "),
        (["x", "--command", "c", "--from", "no-such-folder"], "there is no such folder"),
        (["there", "--command", "c"], "there is a test 'there' already"),
        (["file", "--command", "c"], "there is a file already"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(argv: list[str], message: str, configs: Path, ml: Shell) -> None:
    (configs / "other.yaml").write_text("{name: there, image: i, command: [c]}")
    (configs / "file.yaml").write_text("not a test")
    before = {path: path.read_bytes() for path in configs.iterdir()}
    assert message in ml("new", *argv, code=2)
    assert {path: path.read_bytes() for path in configs.iterdir()} == before
