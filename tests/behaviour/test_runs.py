"""Whole runs through `airflow dags test`: their records, and the parameters of a run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_home import PROJECT, Home
from ml_metrics.pipeline import steps
from unit.pipeline.retention.run_folders import store, stored_keys

pytestmark = [pytest.mark.e2e]


def shape(row: Any) -> dict[str, str]:
    return {name: type(getattr(row, name)).__name__ for name in row.__dataclass_fields__}


def test_the_yaml_test_and_the_python_test_write_the_same_shape_of_rows(home: Home) -> None:
    shutil.copy(PROJECT / "include" / "metric_configs" / "mnist-cpu.yaml", home.configs)
    rows = {}
    for test in ("tf-mnist-example-cpu", "py-mnist-example-cpu"):
        done = home.run(test)
        assert done.returncode == 0, done.stdout[-3000:]
        with home.warehouse() as warehouse:
            (job,) = warehouse.runs.newest(test)
            metrics = warehouse.metrics.of_run(job.uuid)
        assert (job.job_status, job.verdict) == ("success", "pass")
        assert (job.accelerator, job.test_type, job.framework_version, job.owner) == (
            "cpu",
            "example",
            "tf",
            "vision-team",
        )
        accuracy = next(row for row in metrics if row.metric == "epoch_sparse_categorical_accuracy_final")
        assert accuracy.value > 0.96
        assert (accuracy.lower, accuracy.upper) == (0.96, None)
        assert accuracy.outcome == "pass"
        names = {row.metric for row in metrics}
        assert {"loss_final", "learning_rate_final", "total_wall_time", "goodput", "chip_hours"} <= names
        rows[test] = (shape(job), names)
        assert home.mails(test) == []
        with closing(sqlite3.connect(home.path / "airflow.db")) as airflow:
            events = (
                "SELECT event.extra FROM asset_event AS event JOIN asset ON asset.id = event.asset_id WHERE name = ?"
            )
            (extra,) = [json.loads(row[0]) for row in airflow.execute(events, (f"ml_metrics/passed/{test}",))]
        assert (extra["run"], extra["run_id"]) == (job.uuid, job.run_id)
    yaml, python = rows.values()
    assert yaml == python


TRAINING = """
import json, math, os, random
rate = 0.02
with open(os.path.join(os.environ["MODEL_DIR"], "train.jsonl"), "w") as log:
    for step in range(1000):
        loss = 1 + 8 * math.exp(-rate * step) + random.gauss(0, 0.02)
        print(json.dumps({"step": step, "loss": loss}), file=log)
"""


def test_a_wrong_learning_rate_fails_by_its_loss_curve_alone(home: Home) -> None:
    conditions = {
        "loss_curve": {"curve": {"within": "3 sd", "from_step": 10, "min_runs": 3}},
        "default": {"comparison": "less"},
    }
    home.add_test(
        "curve",
        command=["python3", "-c", TRAINING],
        by_hand=["command"],
        regression_test_config={"metric_success_conditions": conditions},
    )
    for _ in range(3):
        done = home.run("curve")
        assert done.returncode == 0, done.stdout[-3000:]
    wrong = TRAINING.replace("rate = 0.02", "rate = 0.006")
    assert wrong != TRAINING
    assert home.run("curve", {"command": ["python3", "-c", wrong], "trial": "no"}).returncode == 1
    with home.warehouse() as warehouse:
        newest, *good = warehouse.runs.newest("curve", 4)
        metrics = {row.metric: row for row in warehouse.metrics.of_run(newest.uuid)}
        ((curve, band),) = warehouse.curves.of_run(newest.place)
    assert (metrics["loss_curve"].outcome, metrics["loss_curve"].baseline_points) == ("fail", 3)
    assert metrics["loss_final"].outcome not in {"fail", "missing"}
    assert [run.verdict for run in good] == ["insufficient_data"] * 3
    assert curve.tag == "loss"
    assert band is not None
    (mail,) = home.mails("curve")
    assert "the 3 good runs had" in " ".join(mail.read_text().replace("=\n", "").split())


def test_a_workload_that_writes_nothing_lacks_its_required_metric(home: Home) -> None:
    home.add_test("silent", command=["true"], regression_test_config={"required_metrics": ["loss_final"]})
    assert home.run("silent").returncode == 1
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("silent")
        metrics = {row.metric: row for row in warehouse.metrics.of_run(job.uuid)}
    assert job.job_status == "success"
    assert job.verdict != "pass"
    assert metrics["loss_final"].outcome == "missing"
    assert metrics["loss_final"].value is None
    (mail,) = home.mails("silent")
    assert "loss_final" in mail.read_text()


def test_nothing_is_recorded_if_the_test_turns_recording_off(home: Home) -> None:
    home.add_test("unrecorded", command=["true"], metric_collection_config={"write_to_bigquery": False})
    done = home.run("unrecorded")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "load_history" not in done.stdout
    with home.warehouse() as warehouse:
        assert warehouse.runs.newest("unrecorded") == []


def test_a_run_may_override_program_image_and_parameters(home: Home) -> None:
    home.add_test("by-hand", command=["false"], params={"epochs": 3}, by_hand=["image", "command"])
    overrides = {"command": ["python3", "-c", "print('another program')"], "image": "local/other:2", "epochs": 4}
    done = home.run("by-hand", overrides)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "another program" in done.stdout
    with home.warehouse() as warehouse:
        assert warehouse.runs.newest("by-hand") == []
        (job,) = warehouse.runs.newest("by-hand", trials=True)
        metadata = warehouse.runs.metadata(job.uuid)
    assert metadata["image"] == "local/other:2"
    assert metadata["param.epochs"] == "4"
    assert json.loads(metadata["param.command"]) == overrides["command"]


def test_a_run_may_not_have_another_program_unless_its_test_allows_it(home: Home) -> None:
    home.add_test("fixed", command=["true"], params={"size": {"default": "small", "pattern": "^(a+)+$|small"}})
    for conf, why in (
        ({"command": ["echo", "stolen"]}, "may not have another command; allow it with `by_hand: [command]`"),
        ({"size": "a" * 200 + "!"}, "does not match the pattern"),
    ):
        done = home.run("fixed", conf)
        assert done.returncode == 1
        assert why in done.stdout
        assert "stolen\n" not in done.stdout


def test_an_invalid_file_is_visible_and_affects_no_other(home: Home) -> None:
    home.add_test("valid", command=["true"])
    home.add_test("broken", command=["true"], timout="1h")
    home.airflow("dags", "reserialize").check_returncode()
    listed = home.airflow("dags", "list", "--output", "plain").stdout
    assert "valid" in listed
    assert "broken" in listed
    assert "No data found" in home.airflow("dags", "list-import-errors").stdout
    done = home.run("broken")
    assert done.returncode == 1
    assert "timout: unknown key; did you mean 'timeout'?" in done.stdout


REPORTING = """
import json, os
with open(os.path.join(os.environ["MODEL_DIR"], "out.jsonl"), "w") as log:
    print(json.dumps({"step": 1, "loss": float(os.environ["LOSS"])}), file=log)
"""


def test_a_run_by_hand_with_another_image_is_a_trial(home: Home) -> None:
    """It is judged by the regular run before it, and the regular run after it is not judged by the trial."""
    condition = {"comparison": "less", "success_threshold": {"percent_difference": {"percent": 10}}}
    home.add_test(
        "tried",
        command=["python3", "-c", REPORTING],
        env={"LOSS": "{{ params.loss }}"},
        by_hand=["image"],
        params={"loss": 1.0},
        emails=["team@example.com"],
        regression_test_config={"metric_success_conditions": {"loss_final": condition}},
    )
    assert home.run("tried").returncode == 0
    candidate = {"image": "local/candidate:2", "loss": 5.0, "notify": "alice@example.com"}
    assert home.run("tried", candidate).returncode == 1, "the gate states the truth"
    done = home.run("tried", {"loss": 1.0, "image": None})
    assert done.returncode == 0, done.stdout[-3000:]
    with home.warehouse() as warehouse:
        newest, tried, first = warehouse.runs.newest("tried", trials=True)
        assert [run.uuid for run in warehouse.runs.newest("tried")] == [newest.uuid, first.uuid]
        metrics = {row.metric: row for row in warehouse.metrics.of_run(tried.uuid)}
        (after,) = (row for row in warehouse.metrics.of_run(newest.uuid) if row.metric == "loss_final")
        assert warehouse.incidents.find_open("tried") is None
        assert warehouse.runs.metadata(tried.uuid).keys().isdisjoint({"param.notify", "param.trial"})
    assert (tried.trial, tried.image, tried.verdict) == ("image, loss", "local/candidate:2", "fail")
    assert {row.trial for row in metrics.values()} == {"image, loss"}
    assert (metrics["loss_final"].outcome, metrics["loss_final"].baseline_points) == ("fail", 1)
    assert (after.value, after.reference, after.baseline_points) == (1.0, 1.0, 1)
    (mail,) = home.mails("tried")
    text = mail.read_text().replace("=\n", "")
    assert "alice@example.com" in text
    assert "trial of tried failed: loss_final 5, must be below 1.1" in " ".join(text.split())
    assert "team@example.com" not in text


COUNTING = """
import json, os, pathlib
folder = pathlib.Path(os.environ["MODEL_DIR"])
number = len(list(folder.glob("checkpoint-*")))
(folder / f"checkpoint-{number}").touch()
print(json.dumps({"checkpoints": number + 1}), file=(folder / "metrics.jsonl").open("w"))
"""


def test_a_run_that_went_well_and_is_cleared_starts_over_without_its_checkpoints(home: Home) -> None:
    for retries in (1, 2):  # the second is the same run, cleared: it may be tried more often than before
        test = home.add_test("cleared", command=["python3", "-c", COUNTING], retries=retries)
        done = home.run_warm("run-of-one-date", test)
        # afterwards, Airflow's own `dag.test` may fail to look up a deadline of the run, which has none
        assert "run_type: manual> successful" in done.stdout, done.stdout[-3000:]
    with home.warehouse() as warehouse:
        (run,) = warehouse.runs.newest(test)
        assert {row.metric: row.value for row in warehouse.metrics.of_run(run.uuid)}["checkpoints_final"] == 1
    folder = home.runs / test / run.uuid
    for place in (folder, folder / "_ml_metrics" / "generation-2"):
        assert {path.name for path in place.iterdir()} >= {"checkpoint-0", "metrics.jsonl"}
        assert not (place / "checkpoint-1").exists()


def test_the_nightly_dag_removes_old_run_folders_and_leaves_the_run_that_airflow_knows(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"AIRFLOW__ML_METRICS__DOCUMENTS_KEY": "a key of more than 16 letters"}
    monkeypatch.setenv(*next(iter(key.items())))
    test, now = home.add_test("stored", command=["true"]), datetime.now(UTC)
    assert home.airflow("dags", "test", test, **key).returncode == 0
    for name, days in (("old", 40), ("older", 41)):
        store(str(home.runs), test, name, days, now=now)
    done = home.airflow("dags", "test", "ml-metrics-storage", **key)
    assert "keep every run folder" in done.stdout
    assert (done.returncode, len(stored_keys(str(home.runs), test))) == (0, 3), "by default, nothing is removed"
    done = home.airflow("dags", "test", "ml-metrics-storage", AIRFLOW__ML_METRICS__KEEP_RUNS_DAYS="30", **key)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 runs removed, 8 files" in done.stdout
    assert len(stored_keys(str(home.runs), test)) == 1


def test_the_page_of_the_first_test_leads_to_a_judged_test(home: Home, tmp_path: Path) -> None:
    """What docs/first-test.md tells a newcomer, with the folders of this home in place of a checkout."""
    page = (PROJECT / "docs" / "first-test.md").read_text()
    (source,), (limit,) = (
        re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL) for kind in ("python", "yaml")
    )
    program, file = home.shared / "first.py", home.configs / "first-test.yaml"
    program.write_text(source)

    def told(heading: str) -> list[list[str]]:
        (block,) = re.findall(
            r"^```bash\n(.*?)^```", page.split(f". {heading}\n")[1].split("\n## ")[0], re.MULTILINE | re.DOTALL
        )
        places = {"include/workloads/first.py": program, "include/metric_configs": home.configs, "first-run": tmp_path}
        for old, new in places.items():
            block = block.replace(old, str(new))
        return [shlex.split(line) for line in block.splitlines()]

    _, by_hand, explain = told("Write a program")
    subprocess.run([sys.executable, *by_hand[2:]], env={**os.environ, "ML_METRICS_RUN_DIR": str(tmp_path)}, check=True)
    new, validate, run = told("Make the test")
    validate[-1] = str(file)  # other tests leave invalid files in this home
    for command in (explain, new, validate):
        done = home.run_warm(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    judged_by_history = file.read_text()
    assert '"loss_final": {comparison: less}' in judged_by_history

    file.write_text(limit.replace("include/workloads/first.py", str(program)))
    assert told("Set a limit") == told("Break it") == [run]
    program.write_text(f"{source}print('learns')\n")
    good = home.run_warm(*run, "--watch")
    assert good.returncode == 0, good.stdout + good.stderr
    begun = [line.split("  ", 1)[1].strip() for line in good.stdout.split("\n\n")[0].splitlines()]
    assert {*begun} == {"learns", *(task.replace("_", " ") for task in steps.TASKS)}, (
        "the tasks, and what the program says"
    )
    assert "\nPASS  first-test, " in good.stdout
    assert good.stderr == ""

    change, now = re.findall(r"`(RATE = [\d.]+)`", page)
    program.write_text(source.replace(change, now))
    bad = home.run_warm(*run, "--json")
    assert bad.returncode == 1, bad.stdout + bad.stderr
    told_of = json.loads(bad.stdout)
    metric = next(one for one in told_of["metrics"] if one["metric"] == "loss_final")
    assert (told_of["verdict"], told_of["run"]["trial"], metric["verdict"], metric["upper"]) == (
        "fail",
        None,
        "fail",
        0.05,
    )
    assert f"why      {told_of['why']}" in page
    assert told_of["look"]["page"].endswith(f"run={told_of['run']['uuid']}")
    assert [told_of["look"]["mail"]] == list(map(str, home.mails("first-test")))
