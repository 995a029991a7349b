"""`ml-metrics collect`."""

import json
from pathlib import Path

import pytest

from ml_metrics.ui.cli import main
from unit.measure.collect.run_folders import write
from unit.ui.cli.shell import Shell

CONFIG = """\
metric_collection_config:
  default_aggregation_strategies: [final, max]
  time_to_accuracy: {accuracy_tag: acc, accuracy_threshold: 0.9}
"""
WORKLOAD = {
    "status": "success", "started_at": "2026-01-01T00:00:00+00:00", "ended_at": "2026-01-01T00:10:00+00:00",
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "vision.yaml"
    path.write_text(CONFIG)
    return str(path)


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    write(tmp_path / "run", loss=[3, 1], acc=[0.25, 0.5])
    return str(tmp_path / "run")


def test_json_prints_one_document_and_nothing_else(config: str, run_dir: str, ml: Shell) -> None:
    document = ml.json("collect", config, run_dir)
    assert set(document) == {"metrics", "warnings", "files", "metadata", "missing", "notes"}
    assert [metric["name"] for metric in document["metrics"]] == ["acc_final", "acc_max", "loss_final", "loss_max"]
    assert document["metrics"][3] == {
        "name": "loss_max", "tag": "loss", "strategy": "max", "value": 3.0, "step": 0, "wall_time": 1000.0,
        "points": 2, "non_finite": 0, "first_non_finite": None, "unit": "", "better": "lower",
    }  # fmt: skip
    assert document["missing"]["time_to_accuracy"].startswith("acc never reached 0.9")


def test_the_wall_time_is_that_of_the_workload_in_the_folder(config: str, run_dir: str, ml: Shell) -> None:
    documents = Path(run_dir, "_ml_metrics")
    documents.mkdir()
    (documents / "workload.json").write_text(json.dumps(WORKLOAD))
    metrics = {metric["name"]: metric["value"] for metric in ml.json("collect", config, run_dir, "--verify")["metrics"]}
    assert metrics["total_wall_time"] == 600


def test_the_table_fits_a_terminal(config: str, run_dir: str, ml: Shell) -> None:
    write(Path(run_dir, "deep"), **{"a/very/long/" * 9 + "tag": [1e-9], "bell\a": [float("nan")]})
    output = ml("collect", config, run_dir)
    assert all(len(line) <= 80 for line in output.splitlines())
    assert "\a" not in output
    assert "loss_final" in output
    assert "time_to_accuracy: missing: acc never reached 0.9: the best value was 0.5, at" in output


def test_a_wide_terminal_shows_whole_names(
    config: str, run_dir: str, ml: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "torchelastic/SimpleElasticAgent._initialize_workers.duration.ms"
    write(Path(run_dir, "deep"), **{long: [1.0]})
    assert long not in ml("collect", config, run_dir)
    monkeypatch.setenv("COLUMNS", "140")
    assert f"{long}_final" in ml("collect", config, run_dir)


def test_without_a_metric_the_answer_is_no(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["collect", config, str(tmp_path / "empty")]) == 1
    (only,) = capsys.readouterr().err.splitlines()
    assert only.startswith(f"warning: {tmp_path}/empty: has no metrics in any of its 0 files; ")
    assert main(["collect", config, str(tmp_path / "empty"), "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["metrics"] == []
    assert printed.err == f"no metric was found in 0 files below {tmp_path}/empty\n"


@pytest.mark.parametrize("wrong", ["no/such/folder", __file__])
def test_a_folder_that_does_not_exist_is_an_error(config: str, wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", config, wrong, "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert wrong in printed.err


def test_notes_are_shown(run_dir: str, tmp_path: Path, ml: Shell) -> None:
    config = tmp_path / "auto.yaml"
    config.write_text("metric_collection_config: {warmup: auto}")
    assert "note: no warm-up was found in acc, loss: fewer than 8 finite points" in ml("collect", str(config), run_dir)


@pytest.mark.parametrize("named_by", ["file", "folder"])
def test_expressions_know_the_accelerator(run_dir: str, tmp_path: Path, ml: Shell, named_by: str) -> None:
    config = tmp_path / "rate.yaml"
    test = "name: rate\nimage: i\ncommand: [c]\naccelerator: v5litepod-8\nparams: {batch: 4}\n"
    computed = "metric_collection_config: {expressions: {rate: param('batch') * chips}}\n"
    config.write_text((test if named_by == "file" else "") + computed)
    if named_by == "folder":
        definition = {"name": "rate", "image": "i", "command": ["c"], "accelerator": "v5litepod-8"}
        record = {"test": "rate", "dag_id": "rate", "run_id": "1", "deployment": "d", "test_file": definition}
        Path(run_dir, "_ml_metrics").mkdir()
        Path(run_dir, "_ml_metrics", "run.json").write_text(json.dumps({**record, "params": {"batch": 4}}))
    document = ml.json("collect", str(config), run_dir)
    assert [one["value"] for one in document["metrics"] if one["name"] == "rate"] == [32.0]


def test_an_unknown_file_becomes_a_judged_metric_by_the_printed_lines_alone(
    tmp_path: Path, ml: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    (run / "results").mkdir(parents=True)
    (run / "results/eval.json").write_text('{\n "eval": {"accuracy": 0.91, "top 5": 0.99}\n}')
    (run / "metrics.csv").write_text("step,loss\n1,2.5\n")
    said = ml("collect", str(run), "--explain")
    assert "metrics.csv: csv, 1 metric\n" in said
    assert "results/eval.json: no known format. These lines of a test file read and judge it:\n" in said
    lines = [line.removeprefix("    ") for line in said.splitlines() if line.startswith("    ")]
    test = tmp_path / "t.yaml"
    test.write_text("\n".join(["name: t", "image: python:3.11", "command: [python3]", *lines]))
    assert main(["validate", str(test)]) == 0
    assert "accuracy" in said
    capsys.readouterr()
    values = {one["name"]: one["value"] for one in ml.json("collect", str(test), str(run))["metrics"]}
    assert values == {"eval/accuracy": 0.91, "eval/top 5": 0.99, "loss_final": 2.5}


def test_a_table_over_a_load_leads_to_curves_and_metrics_that_nothing_judges_are_counted(
    tmp_path: Path, ml: Shell
) -> None:
    (tmp_path / "load.csv").write_text("concurrency,throughput\n1,95\n2,188\n4,371\n")
    runs = [{"name": name, "p50_ms": 1.5, "p99_ms": 2.5} for name in ("decode", "prefill")]
    (tmp_path / "bench.json").write_text(json.dumps({"runs": runs, "throughput": 8}))
    (tmp_path / "history.json").write_text(json.dumps([{"epoch": one, "loss": 1 / one} for one in (1, 2)]))
    said = ml("collect", str(tmp_path), "--explain")
    assert "If concurrency is a load or a size, judge one curve instead: docs/curves.md\nThey give 1 metric:" in said
    assert "They give 5 metrics, and judge 3 of them:" in said
    assert said.count("one curve instead") == 1


def test_without_a_config_files_are_explained_and_not_collected(tmp_path: Path, ml: Shell) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    assert "--explain RUN_DIR" in ml("collect", str(tmp_path), code=2)
    assert (
        ml("collect", str(tmp_path), "--explain", code=1)
        == "a.txt: no known format, and no number with a name was found in it\n"
    )


def test_files_of_one_shape_are_explained_once(tmp_path: Path, ml: Shell) -> None:
    for name in ("a.json", "b.json", "c/a.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"accuracy": 0.5}')
    said = ml("collect", str(tmp_path), "--explain")
    assert said.count("documents:") == 1
    assert "b.json: as a.json. Add it to `files`; {file}/ before a name keeps both apart" in said
    assert "c/a.json: as a.json. Add it to `files`; use_run_name_prefix: true keeps both apart" in said


@pytest.mark.parametrize("command", ["collect CONFIG RUN --json", "validate CONFIG --with-run RUN --json"])
def test_a_command_stops_where_a_task_stops(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ml: Shell
) -> None:
    config, run = tmp_path / "c.yaml", tmp_path / "run"
    config.write_text("metric_collection_config: {default_aggregation_strategies: [final]}\n")
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step": 1, "a": 1, "b": 2, "c": 3}\n')
    argv = command.replace("CONFIG", str(config)).replace("RUN", str(run)).split()
    assert "c_final" in ml(*argv)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__MAX_METRICS", "1")
    assert "c_final" not in ml(*argv)
