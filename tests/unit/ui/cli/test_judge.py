"""`ml-metrics judge` and `ml-metrics replay`, as a user or a pipeline calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import golden
from ml_metrics.ui.cli import main
from unit.ui.cli.shell import Shell

CONFIG = {
    "regression_test_config": {
        "metric_success_conditions": {
            "epoch_sparse_categorical_accuracy_final": {
                "comparison": "greater",
                "success_threshold": {"fixed_value": 0.96},
            },
            "default": {
                "comparison": "less",
                "success_threshold": {"stddevs_from_mean": 4.0},
                "wait_for_n_points_of_history": 5,
            },
        },
        "required_metrics": ["goodput"],
    }
}
METRICS = {
    "epoch_sparse_categorical_accuracy_final": 0.79,
    "total_wall_time": 90.0,
    "loss_final": None,
    "lr_final": 0.1,
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mnist.json").write_text(json.dumps(CONFIG))
    Path("metrics.json").write_text(json.dumps(METRICS))
    rows = [
        {
            "uuid": f"run-{day}",
            "timestamp": f"2026-01-0{day}T06:00:00Z",
            "metric_name": name,
            "metric_value": value + day % 3,
            "job_status": "success",
            "verdict": "pass",
        }
        for day in range(1, 8)
        for name, value in (("total_wall_time", 60.0), ("loss_final", 2.0))
    ]
    Path("history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("others.jsonl").write_text("".join(json.dumps({**rows[0], "test_name": name}) + "\n" for name in "ab"))
    return tmp_path


JUDGE = ["judge", "mnist.json", "--metrics", "metrics.json", "--history", "history.jsonl"]


@pytest.mark.usefixtures("files")
def test_the_document_of_judge(ml: Shell) -> None:
    golden.check("judge/judge.json", ml(*JUDGE, "--json", code=1))


@pytest.mark.usefixtures("files")
def test_text_output(ml: Shell) -> None:
    text = ml(*JUDGE, code=1)
    golden.check("judge/judge.txt", text)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.usefixtures("files")
def test_a_run_that_passes(ml: Shell) -> None:
    Path("metrics.json").write_text(
        '{"epoch_sparse_categorical_accuracy_final": 0.97, "total_wall_time": 61, "loss_final": 2.5, "goodput": 97}'
    )
    assert ml.json(*JUDGE)["passed"] is True


@pytest.mark.usefixtures("files")
def test_a_failed_job_skips_its_metrics(ml: Shell) -> None:
    judged = ml.json(*JUDGE, "--status", "failure", code=1)
    assert {one["verdict"] for one in judged["verdicts"]} == {"skipped"}
    assert judged["alerts"] == [
        {"kind": "job_status", "metric": None, "message": "job_status was `failure` for test `mnist`"}
    ]


@pytest.mark.usefixtures("files")
def test_which_runs_are_before_the_judged_one(ml: Shell) -> None:
    def wall_time(*argv: str) -> tuple[str, int]:
        (found,) = (one for one in ml.json(*argv, code=1)["verdicts"] if one["metric"] == "total_wall_time")
        return found["verdict"], found["baseline_points"]

    assert wall_time(*JUDGE[:4])[0] == "insufficient_data", "the first run has no history"
    # later rows and its own do not count
    assert wall_time(*JUDGE, "--at", "2026-01-04T12:00:00", "--run", "run-2", "--test", "t")[1] == 3
    rows = Path("history.jsonl").read_text().replace("2026-", "2999-")
    Path("history.jsonl").write_text(rows)
    assert wall_time(*JUDGE)[1] == 7, "a history from the future counts"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["judge", "none.json", "--metrics", "metrics.json"], "none.json"),
        (["judge", "mnist.json", "--metrics", "none.json"], "none.json"),
        (["judge", "mnist.json", "--metrics", "history.jsonl"], "history.jsonl"),
        ([*JUDGE, "--at", "noon"], "--at: 'noon'"),
        (["replay", "mnist.json", "--history", "metrics.json"], "metrics.json:1"),
        (["replay", "mnist.json", "--history", "others.jsonl"], "with --test: a, b"),
        (["judge", "mnist.json", "--metrics", "metrics.json", "--history", "others.jsonl"], "with --test: a, b"),
    ],
)
def test_unreadable_files_are_exit_code_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.usefixtures("files")
def test_replay(ml: Shell) -> None:
    rows = Path("history.jsonl").read_text()
    spike = {"uuid": "run-8", "timestamp": "2026-01-08", "metric_name": "total_wall_time", "metric_value": 99}
    Path("history.jsonl").write_text(rows + json.dumps(spike) + "\n")
    config = {
        "regression_test_config": {
            "metric_success_conditions": {
                "total_wall_time": CONFIG["regression_test_config"]["metric_success_conditions"]["default"]
            }
        }
    }
    Path("wall.json").write_text(json.dumps(config))
    replayed = ml.json("replay", "wall.json", "--history", "history.jsonl", code=1)
    assert replayed["summary"] == {"total_wall_time": {"runs": 8, "fail": 1, "alerts": 1}}
    assert [run["uuid"] for run in replayed["runs"]] == [f"run-{day}" for day in range(1, 9)]
    golden.check("judge/replay.txt", ml("replay", "wall.json", "--history", "history.jsonl", code=1))
