"""What real programs wrote comes out under the names, units and directions that a reader of their files expects."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from unit.measure.collect.formats.sample_files import SAMPLES
from unit.measure.collect.run_folders import by_name, collected, values

SOME_METRICS = {
    "benchmark-data": {"load_median": (11.5, "ms", "")},
    "dvclive": {"train/loss_final": (1, "", "lower"), "val/loss_final": (2, "", "lower")},
    "evals-result": {"valid/l2_final": (1.0585495326817384, "", ""), "train/l1_final": (0.9106957666666667, "", "")},
    "fio": {
        "load/read/iops_median": (11022.044088, "1/s", "higher"),
        "load/write/completion_latency_p99_median": (10048, "ns", "lower"),
    },
    "hf-results": {"eval_accuracy_median": (0.91, "", "higher"), "train_runtime_median": (9.5, "", "lower")},
    "hf-trainer-state": {"loss_final": (2.5, "", "lower"), "eval_loss_final": (2.25, "", "lower")},
    "iperf3": {"sent/retransmits_median": (2, "", "lower")},
    "jmh": {
        "size=10/org.example.Sort.sort_median": (250.5, "ops/s", "higher"),
        "size=100/org.example.Sort.sort/gc.alloc.rate_median": (5.5, "MB/sec", ""),
    },
    "json-lines": {"total_loss_final": (1.91, "", "lower")},
    "junit": {"pytest/failures_median": (1, "", "lower"), "test_a.test_ok[1]/time_median": (0.005, "s", "lower")},
    "mlflow-database": {"loss_final": (1, "", "lower"), "val/accuracy_final": (0.5, "", "higher")},
    "otlp": {"accuracy_final": (0.75, "", "higher"), "kind=in/tokens_final": (200, "token", "")},
    "perfherder": {"tp5 e10s/frames_median": (60, "fps", "higher"), "tp5 e10s_median": (150.5, "ms", "lower")},
    "sysbench": {
        "cpu_speed/events_per_second_median": (507.23, "", ""),
        "latency/95th_percentile_median": (11.87, "ms", "lower"),
        "general_statistics/total_time_median": (1.0237, "s", "lower"),
    },
    "wandb-summary": {"val/accuracy_median": (0.91, "", "higher")},
}


@pytest.mark.parametrize("program", SOME_METRICS)
def test_a_program_is_read_without_any_configuration(program: str) -> None:
    found = collected(SAMPLES / program)
    assert found.warnings == ()
    metrics = by_name(found)
    for name, (value, unit, better) in SOME_METRICS[program].items():
        one = metrics[name]
        assert (one.value, one.unit, one.better) == (pytest.approx(value, rel=1e-4), unit, better), name


def test_points_of_mlflow_have_their_steps_and_nan_stays(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "mlflow-database/mlflow.db", tmp_path)
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute("UPDATE metrics SET value = 1.7976931348623157e308 WHERE key = 'loss' AND step = 2")
    found = by_name(collected(tmp_path, default_aggregation_strategies=["final", "first"]))
    assert (found["loss_final"].value, found["loss_final"].step) == (float("inf"), 2)
    assert (found["loss_first"].value, found["bad_final"].non_finite) == (3, 1)


@pytest.mark.parametrize(
    "attack",
    [
        "DROP TABLE metrics; CREATE VIEW metrics AS WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT 1",
        "DROP TABLE runs",
    ],
)
def test_a_database_is_read_from_tables_only(attack: str, tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "mlflow-database/mlflow.db", tmp_path)
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.executescript(attack)
    found = collected(tmp_path)
    assert values(found) == {}
    assert "mlflow.db: could not be read as mlflow-database: has no tables of metrics and runs" in found.warnings


def test_a_result_of_mlperf_inference_needs_no_step(tmp_path: Path) -> None:
    event = {
        "namespace": "mlperf::logging",
        "time_ms": 1.5,
        "event_type": "POINT_IN_TIME",
        "metadata": {"is_error": False},
    }
    lines = [
        event | {"key": "result_samples_per_second", "value": 250.5},
        event | {"key": "requested_seed", "value": 3},
    ]
    (tmp_path / "mlperf_log_detail.txt").write_text("".join(f":::MLLOG {json.dumps(one)}\n" for one in lines))
    assert values(collected(tmp_path)) == {"result_samples_per_second_median": 250.5}


def test_an_older_result_of_vllm_has_no_throughput(tmp_path: Path) -> None:
    result = {"backend": "vllm", "model_id": "m", "num_prompts": 200, "mean_ttft_ms": 5.5, "p99_itl_ms": 7.5}
    (tmp_path / "serving.json").write_text(json.dumps(result))
    assert values(collected(tmp_path)) == {"mean_ttft_ms_median": 5.5, "p99_itl_ms_median": 7.5}


def test_a_large_document_is_read_if_its_values_take_no_more_memory_than_those_of_a_small_one(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps({"a": {"x": {"value": 1}}, "text": "a" * 5_000_000}))
    (tmp_path / "bomb.json").write_text("[" + "{}," * 2_000_000 + "{}]")
    documents = [{"files": ["small.json"], "metrics": {"x": "$.a.x.value"}}, {"files": ["bomb.json"]}]
    found = collected(tmp_path, sources={"documents": documents})
    assert values(found) == {"x": 1}
    (warning,) = found.warnings
    assert warning.startswith("bomb.json: not read: would take about 1")


def test_lines_in_a_json_file_are_read_as_those_of_jsonl(tmp_path: Path) -> None:
    lines = [
        {"training_iteration": at, "reward": at / 2, "kl": None, "all": [1.0], "info": {"loss": 8.0 - at}, "id": "a"}
        for at in (1, 2)
    ]
    texts = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "result.json").write_text(texts)
    of_json = collected(tmp_path)
    (tmp_path / "result.json").rename(tmp_path / "result.jsonl")
    of_lines = collected(tmp_path)
    assert values(of_json) == values(of_lines) == {"info/loss_final": 6.0, "reward_final": 1.0}
    assert of_json.metadata == of_lines.metadata == {"id": "a"}
    assert len(of_json.warnings) == len(of_lines.warnings) == 2  # of nulls, and of a list


def test_what_differs_in_mode_or_folder_is_no_one_series(tmp_path: Path) -> None:
    jmh = [
        {"benchmark": "a.b", "mode": mode, "threads": 1, "primaryMetric": {"score": score, "scoreUnit": unit}}
        for mode, score, unit in (("avgt", 5, "ns/op"), ("thrpt", 2e8, "ops/s"))
    ]
    (tmp_path / "jmh.json").write_text(json.dumps(jmh))
    for number in (0, 1):
        table = tmp_path / f"dvclive/plots/metrics/system/gpu/{number}/usage (%).tsv"
        table.parent.mkdir(parents=True)
        table.write_text(f"timestamp\tstep\tusage (%)\n1790000000000\t0\t{90 + number}\n")
    found = collected(tmp_path)
    assert found.warnings == ()
    assert {name: (one.value, one.unit, one.better) for name, one in by_name(found).items()} == {
        "a.b/avgt_median": (5, "ns/op", "lower"),
        "a.b/thrpt_median": (2e8, "ops/s", "higher"),
        "system/gpu/0/usage (%)_final": (90, "%", ""),
        "system/gpu/1/usage (%)_final": (91, "%", ""),
    }


def test_a_document_is_read_behind_text_and_from_gzip(tmp_path: Path) -> None:
    result = (SAMPLES / "fio").rglob("*.json")
    (tmp_path / "fio.json").write_text(f"fio: a note [1]\n{{see}}\n{next(result).read_text()}")
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"accuracy": 0.5}'))
    (tmp_path / "parts.json.gz").write_bytes(gzip.compress(b'{"recall": ') + gzip.compress(b"0.7}"))
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b"[" + b" " * 70_000_000 + b"]"))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b'{"accuracy": 0.5}')[:-9])
    found = collected(tmp_path, sources={"documents": [{"files": ["*.gz"]}]})
    assert (by_name(found)["accuracy"].value, by_name(found)["recall"].value) == (0.5, 0.7)
    assert any(name.endswith("/read/iops_median") for name in by_name(found))
    assert found.warnings == (
        "bomb.json.gz: not read: is cut off, or holds more than 67,108,864 bytes",
        "cut.json.gz: not read: is cut off, or holds more than 67,108,864 bytes",
    )


def test_a_report_of_trtllm_has_its_lengths_above_the_overview(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(
        "= REQUEST DETAILS\n====\nNumber of requests:  3000\nAverage Input Length (tokens):  128.0\n====\n"
        "= PERFORMANCE OVERVIEW\n====\nTotal Token Throughput (tokens/sec):  52511.5\n====\n= DATASET DETAILS\n"
        "Maximum:  7\n"
    )
    (curve,) = collected(tmp_path).sweeps
    assert (curve.name, curve.x_name, curve.points[0][:3]) == (
        "Total Token Throughput", "Average Input Length", (128, 52511.5, 3000),
    )  # fmt: skip
