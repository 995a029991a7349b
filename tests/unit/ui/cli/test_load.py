"""`ml-metrics load` and `backfill`: each run folder is one run in the warehouse, however often it is loaded."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli
from ml_metrics.ui.cli import backfill
from ml_metrics.warehouse import open_warehouse
from unit.measure.events.event_files import event, simple, write
from unit.ui.cli.shell import Shell

if TYPE_CHECKING:
    from ml_metrics.warehouse import JobRow

TEST = "tf-mnist-example-cpu"
BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
TEST_FILE = {
    "framework": "tf",
    "model": "mnist",
    "mode": "example",
    "accelerator": "cpu",
    "image": "local",
    "command": ["python3", "train.py"],
    "metric_collection_config": {"default_aggregation_strategies": ["final"]},
    "regression_test_config": {
        "metric_success_conditions": {"loss_final": {"comparison": "less", "success_threshold": {"fixed_value": 1.0}}}
    },
}
STRICTER = """
metric_collection_config: {default_aggregation_strategies: [final, max]}
regression_test_config:
  metric_success_conditions: {loss_final: {comparison: less, success_threshold: {fixed_value: 0.15}}}
"""


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/warehouse.db"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for day in range(3):
        _run_folder(tmp_path / "runs", day, TEST_FILE)
    return tmp_path / "runs"


def _run_folder(root: Path, day: int, test_file: dict[str, object], deployment: str = "local") -> RunFolder:
    run = Run(TEST, TEST, f"scheduled__{day}", deployment)
    folder = RunFolder.of(run, str(root))
    began = BEGIN + timedelta(days=day)
    identity = {"test": run.test, "dag_id": run.dag_id, "run_id": run.run_id, "deployment": run.deployment}
    folder.write("run", {**identity, "test_file": test_file})
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=began, ended_at=began + timedelta(minutes=1)))
    write(root / run.test / run.key, event(1, simple("loss", 0.1 * (day + 1)), wall_time=began.timestamp()))
    return folder


def _rows(address: str) -> list[JobRow]:
    with open_warehouse(address) as warehouse:
        return warehouse.runs.newest(TEST)


def _verdicts(address: str) -> list[tuple[float, str]]:
    with open_warehouse(address) as warehouse:
        return [(round(each.value, 6), each.outcome) for each in warehouse.metrics.values(TEST, "loss_final")]


@pytest.mark.parametrize("command", ["load", "backfill"])
def test_a_run_whose_end_nothing_states_is_refused_and_its_row_stays(
    command: str, address: str, runs: Path, ml: Shell
) -> None:
    load = ["load", *map(str, (runs / TEST).iterdir())]
    argv = load if command == "load" else ["backfill", TEST, "--runs", str(runs)]
    assert cli.main([*argv, "--warehouse", address]) == 0
    before = {row.run_id: row.job_status for row in _rows(address)}
    lost = RunFolder.of(Run(TEST, TEST, "scheduled__1", "local"), str(runs)).document_path("workload")
    Path(lost).unlink()
    assert f"{lost}: is absent, so nothing states how the run ended" in ml(*argv, "--warehouse", address, code=2)
    assert {row.run_id: row.job_status for row in _rows(address)} == before


def test_runs_are_judged_and_loaded_again_without_doubling(address: str, runs: Path, tmp_path: Path) -> None:
    argv = ["backfill", TEST, "--runs", str(runs), "--warehouse", address]
    for _ in range(2):
        assert cli.main(argv) == 0
        assert _verdicts(address) == [(0.3, "pass"), (0.2, "pass"), (0.1, "pass")]
    (tmp_path / "stricter.yaml").write_text(STRICTER)
    assert cli.main([*argv, "--config", str(tmp_path / "stricter.yaml")]) == 0
    assert _verdicts(address) == [(0.3, "fail"), (0.2, "fail"), (0.1, "pass")]
    assert [run.verdict for run in _rows(address)] == ["fail", "fail", "pass"]
    with open_warehouse(address) as warehouse:
        assert len(warehouse.metrics.values(TEST, "loss_max")) == 3


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ("metric_collection_config: {default_aggregation_strategies: [final]}", "recorded"),
        (STRICTER.replace("{comparison", "{severity: warn, comparison"), "passed, with a warning about loss_final"),
        (STRICTER, "did not pass: loss_final"),
    ],
)
def test_a_warning_is_no_failure_and_a_run_without_conditions_is_recorded(
    address: str, runs: Path, tmp_path: Path, ml: Shell, config: str, line: str
) -> None:
    (tmp_path / "other.yaml").write_text(config)
    argv = ["backfill", TEST, "--runs", str(runs), "--warehouse", address, "--config", str(tmp_path / "other.yaml")]
    assert ml(*argv).splitlines()[-1] == f"{_rows(address)[0].uuid}: {line}"


def test_a_lost_warehouse_is_filled_from_the_run_folders(address: str, runs: Path, tmp_path: Path) -> None:
    assert cli.main(["backfill", TEST, "--runs", str(runs), "--warehouse", address]) == 0
    again = f"sqlite:///{tmp_path}/again.db"
    for _ in range(2):
        assert cli.main(["load", *map(str, sorted((runs / TEST).iterdir())), "--warehouse", again]) == 0
        assert _verdicts(again) == _verdicts(address)
    assert [(run.uuid, run.verdict) for run in _rows(again)] == [(run.uuid, run.verdict) for run in _rows(address)]


def test_a_test_that_is_not_recorded_is_skipped(address: str, tmp_path: Path, ml: Shell) -> None:
    unrecorded = {**TEST_FILE, "metric_collection_config": {"write_to_bigquery": False}}
    folder = _run_folder(tmp_path / "runs", 0, unrecorded)
    for argv in (["load", folder.path], ["backfill", TEST, "--runs", str(tmp_path / "runs")]):
        assert "`write_to_bigquery: false`" in ml(*argv, "--warehouse", address)
    assert _rows(address) == []


def test_json_is_one_document(
    address: str, runs: Path, tmp_path: Path, ml: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    document = ml.json("backfill", TEST, "--runs", str(runs), "--warehouse", address)
    keys = [run["uuid"] for run in document["runs"]]
    assert document == {
        "test": TEST,
        "runs": [
            {"uuid": key, "passed": True, "outcome": "pass", "broken": [], "warnings": [], "loaded": True}
            for key in keys
        ],
        "unreadable": [],
    }
    folders = [*map(str, sorted((runs / TEST).iterdir())), str(tmp_path / "nowhere")]
    assert cli.main(["load", *folders, "--warehouse", address, "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert {run["uuid"] for run in document["runs"]} == set(keys)
    assert {(run["job_status"], run["loaded"]) for run in document["runs"]} == {("success", True)}
    assert [str(tmp_path / "nowhere") in reason for reason in document["unreadable"]] == [True]


def test_a_mistyped_test_gets_a_suggestion(address: str, runs: Path, ml: Shell) -> None:
    assert f"did you mean '{TEST}'?" in ml(
        "backfill", TEST.replace("mnist", "mnst"), "--runs", str(runs), "--warehouse", address, code=2
    )
    assert not list(runs.parent.glob("warehouse.db"))


def test_a_run_of_another_deployment_is_recorded_as_one(
    runs: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (3, 4):
        _run_folder(runs, day, TEST_FILE, "prod")
    folders = [str(path) for path in (runs / TEST).iterdir()]
    assert cli.main(["load", *folders, "--warehouse", address]) == 0
    assert capsys.readouterr().err.count("is a run of deployment prod, and is recorded as one") == 1
    with open_warehouse(address) as warehouse:
        assert len(warehouse.runs.newest(TEST)) == 3
        assert len(warehouse.in_deployment("prod").runs.newest(TEST)) == 2
    assert cli.main(["backfill", TEST, "--runs", str(runs), "--warehouse", address, "--deployment", "prod"]) == 0
    assert capsys.readouterr().err.count("is a run of deployment local") == 1
    with open_warehouse(address) as warehouse:
        assert len(warehouse.runs.newest(TEST)) == 3


def _plant(folder: Path, document: str, **changes: object) -> None:
    """Change a document as a workload would, which has no key."""
    path = folder / "_ml_metrics" / f"{document}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("command", ["load", "backfill"])
@pytest.mark.parametrize("document", ["run", "workload"])
def test_a_run_whose_documents_somebody_else_wrote_is_refused(
    address: str, runs: Path, ml: Shell, command: str, document: str
) -> None:
    assert cli.main(["backfill", TEST, "--runs", str(runs), "--warehouse", address]) == 0
    before = _rows(address)
    folder = runs / TEST / before[0].uuid
    _plant(folder, document, status="failure", run_id="scheduled__1")
    place = [str(folder)] if command == "load" else [TEST, "--runs", str(runs)]
    assert f"{document}.json: was not written by this deployment for this run" in ml(
        command, *place, "--warehouse", address, code=2
    )
    assert [(row.uuid, row.job_status) for row in _rows(address)] == [(row.uuid, row.job_status) for row in before]


def test_documents_of_another_run_do_not_replace_its_row(address: str, runs: Path, ml: Shell) -> None:
    first, second, _ = sorted((runs / TEST).iterdir())
    for path in (first / "_ml_metrics").iterdir():
        shutil.copy(path, second / "_ml_metrics" / path.name)
    assert cli.main(["load", str(second), "--warehouse", address]) == 2
    assert "is in the folder of another" in ml("load", str(second), "--unsigned", "--warehouse", address, code=2)


def test_a_run_folder_inside_a_run_folder_is_none(address: str, runs: Path) -> None:
    first, second, _ = sorted((runs / TEST).iterdir())
    shutil.copytree(second, first / "nested" / second.name)
    assert cli.main(["backfill", TEST, "--runs", str(runs), "--warehouse", address]) == 0
    assert len(_rows(address)) == 3
    assert len(backfill.run_folders(str(runs), TEST)) == 3


def test_documents_of_an_older_version_are_loaded_on_demand(address: str, runs: Path, ml: Shell) -> None:
    for folder in (runs / TEST).iterdir():
        for document in ("run", "workload"):
            _plant(folder, document)
    argv = ["backfill", TEST, "--runs", str(runs), "--warehouse", address]
    assert ml(*argv, code=2).count("--unsigned") == 3
    assert cli.main([*argv, "--unsigned"]) == 0
    assert len(_rows(address)) == 3
