"""What each format's reader reads: values, units, directions, repeats, and what names a series."""

import json
import math
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import Metric
from ml_metrics.measure.readers import mllog
from ml_metrics.measure.readers.registry import read_files
from unit.measure.collect.formats.sample_files import SAMPLES, InMemory
from unit.measure.collect.run_folders import by_name, collected


def metrics_of(sample: str, tmp_path: Path, **config: Any) -> dict[str, Metric]:
    target = tmp_path / sample
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SAMPLES / sample, target)
    return by_name(collected(tmp_path, **config))


def written(content: Any, tmp_path: Path, name: str = "file.json") -> dict[str, Metric]:
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return by_name(collected(tmp_path))


def fact(metric: Metric) -> tuple[float, str, str, int]:
    return metric.value, metric.unit, metric.better, metric.points


def test_rounds_of_pytest_benchmark_are_repeats(tmp_path: Path) -> None:
    content = json.loads((SAMPLES / "pytest-benchmark/with_rounds.json").read_text())
    stats = content["benchmarks"][0]["stats"]
    found = metrics_of("pytest-benchmark/with_rounds.json", tmp_path)
    assert fact(found["test_sums.py::test_sum[10]/time_median"]) == (stats["median"], "s", "lower", 5)
    assert found["test_sums.py::test_sum[100]/items_median"].value == 100
    strategies = {"metric_to_aggregation_strategy": {"*/time": ["p90", "min", "max"]}}
    chosen = metrics_of("pytest-benchmark/with_rounds.json", tmp_path, **strategies)
    assert chosen["test_sums.py::test_sum[10]/time_max"].value == stats["max"]
    assert chosen["test_sums.py::test_sum[10]/time_min"].value == stats["min"]


def test_pytest_benchmark_without_rounds_has_the_same_names(tmp_path: Path) -> None:
    content = json.loads((SAMPLES / "pytest-benchmark/without_rounds.json").read_text())
    found = metrics_of("pytest-benchmark/without_rounds.json", tmp_path)
    assert found["test_sums.py::test_sum[10]/time_median"].value == content["benchmarks"][0]["stats"]["median"]


def test_a_config_with_strategies_of_its_own_has_those_for_repeats_too(tmp_path: Path) -> None:
    found = metrics_of("hyperfine/two_commands.json", tmp_path, default_aggregation_strategies=["average"])
    result = json.loads((SAMPLES / "hyperfine/two_commands.json").read_text())["results"][0]
    assert found["sleep 0.01/time_average"].value == pytest.approx(result["mean"], rel=1e-12)
    assert "sleep 0.01/time_median" not in found


def test_failed_runs_of_hyperfine_are_no_measurement(tmp_path: Path) -> None:
    results = json.loads((SAMPLES / "hyperfine/some_failed.json").read_text())["results"]
    found = metrics_of("hyperfine/some_failed.json", tmp_path)
    for result in results:
        metric = found[f"work,n={result['parameters']['n']}/time_median"]
        good = [time for time, code in zip(result["times"], result["exit_codes"], strict=True) if code == 0]
        assert metric.non_finite == 4 - len(good) > 0
        assert min(good) <= metric.value <= max(good)


def test_repetitions_and_aggregates_of_google_benchmark(tmp_path: Path) -> None:
    found = metrics_of("google-benchmark/repetitions.json", tmp_path / "a")
    name = "sum/iterations:10/repeats:3"
    assert fact(found[f"{name}/real_time_median"])[1:] == ("ns", "lower", 3)
    assert found[f"{name}/ops_median"].value == 3
    assert math.isnan(found["bad/iterations:1/real_time_median"].value)
    content = json.loads((SAMPLES / "google-benchmark/aggregates.json").read_text())
    median = next(one for one in content["benchmarks"] if one.get("aggregate_name") == "median")
    found = metrics_of("google-benchmark/aggregates.json", tmp_path / "b")
    assert fact(found[f"{name}/cpu_time_median"]) == (median["cpu_time"], "ns", "lower", 1)


def test_parameters_failures_and_skips_of_asv(tmp_path: Path) -> None:
    found = metrics_of("asv/parameters.json", tmp_path)
    assert {"x.A.time_it(1, 'list')_median", "x.A.time_it(2, 'list')_median"} <= found.keys()
    assert "x.A.time_it(2, 'tuple')_median" not in found  # skipped
    assert math.isnan(found["x.time_fail_median"].value)
    assert fact(found["x.track_n_median"]) == (42, "", "", 1)
    assert found["x.peakmem_list_median"].unit == "B"


def test_old_files_of_asv(tmp_path: Path) -> None:
    found = metrics_of("asv/older.json", tmp_path)
    assert {name: metric.value for name, metric in found.items() if not math.isnan(metric.value)} == {
        "x.time_one_median": 0.25,
        "x.A.time_it(1)_median": 1.0,
        "x.A.time_it(2)_median": 2.0,
    }


def test_lists_of_github_action_benchmark_keep_their_unit(tmp_path: Path) -> None:
    assert fact(metrics_of("github-action-benchmark/bigger.json", tmp_path)["tokens_median"]) == (
        1400.5,
        "tok/s",
        "",
        1,
    )


def test_measures_of_bencher(tmp_path: Path) -> None:
    found = metrics_of("bencher/two.json", tmp_path)
    assert {name: metric.value for name, metric in found.items()} == {
        "bench_a/latency_median": 88.0,
        "bench_b/latency_median": 6.5,
        "bench_b/throughput_median": 1e6,
    }


def test_every_argument_that_differs_names_a_series_of_hud(tmp_path: Path) -> None:
    found = metrics_of("hud/list.json", tmp_path)
    assert {name: (metric.value, metric.points) for name, metric in found.items()} == {
        "batch=1/latency_median": (1.6, 3),
        "batch=8/latency_median": (4.0, 1),
        "batch=8/throughput_median": (pytest.approx(math.nan, nan_ok=True), 1),
    }


def test_lines_of_hud_may_be_lists_and_hold_a_metric_only(tmp_path: Path) -> None:
    found = metrics_of("hud/lines.json", tmp_path)
    assert any(name.endswith("tps_median") and metric.points == 2 for name, metric in found.items())
    assert any("batch=2" in name for name in found)


def test_models_name_the_series_of_a_file_of_pytorchs_own_checks(tmp_path: Path) -> None:
    found = metrics_of("hud/pr_time.json", tmp_path)
    assert sorted(metric.value for metric in found.values()) == [3086359081, 5712213247, 40859830085]
    assert all("model=add_loop" in name and "compile_time_instruction_count" in name for name in found)


def test_several_results_of_vllm_are_named_by_what_differs(tmp_path: Path) -> None:
    found = metrics_of("vllm-serve/appended.json", tmp_path)
    assert fact(found["request_rate=1/output_throughput_median"]) == (50.0, "tokens/s", "higher", 1)
    assert fact(found["request_rate=1/median_ttft_ms_median"]) == (12.0, "ms", "lower", 1)
    assert math.isnan(found["request_rate=inf/median_ttft_ms_median"].value)  # no request was completed
    assert not any("ttfts" in name or "generated" in name for name in found)


def test_results_of_vllm_with_an_endpoint_type_and_no_backend(tmp_path: Path) -> None:
    """As vLLM 0.8 writes them."""
    found = metrics_of("vllm-serve/request_rate.json", tmp_path)
    assert fact(found["output_throughput_median"])[1:] == ("tokens/s", "higher", 1)
    names = set(metrics_of("vllm-serve/goodput.json", tmp_path))
    assert any("request_rate=inf" in name and name.endswith("/request_goodput_median") for name in names)


def test_metadata_of_vllm_names_a_series(tmp_path: Path) -> None:
    one = json.loads((SAMPLES / "vllm-serve/one.json").read_text())
    text = "".join(json.dumps({**one, "team": team}) + "\n" for team in ("a", "b"))
    assert {"team=a/duration_median", "team=b/duration_median"} <= written(text, tmp_path).keys()


def test_points_intervals_and_hyperparameters_of_mllog(tmp_path: Path) -> None:
    found = metrics_of("mllog/success.txt", tmp_path)
    assert fact(found["eval_accuracy_final"])[2:] == ("higher", 3)
    assert found["tracked_stats/throughput_final"].step == 3
    assert found["epoch/seconds_final"].points == 3
    assert found["time_to_train_final"].value >= 0
    assert not any("seed" in name for name in found)


RAW = (
    b'""', b'"a"', b"null", b"1", b"-0", b"7.0", b"1.5", b"01", b"-", b"1e999", b"9" * 25, b"9" * 400, b"NaN",
    b"Infinity",
    b"true", b"nul", b'"\xff"', b'"\xc3\xa9"', b'"\\ud800"', b'"\\q"', b'"\\u12"', b'"a\x01"', b'"a\tb"',
    b'"unclosed',
    b"[" * 70 + b"]" * 70, b"[" * 3 + b"]" * 2, b"[1,]", b'{"a": 1,}', b'{"a" 1}', b'{"step_num": 3}',
    b'{"step_num": null}',
    b'{"step": 1, "step_num": 2}', b'{"epoch_num": 2}', b'{"step_num": 7.0}', b'{"step_num": "7"}',
    b'{"step_num": true}', b'{"step_num": 99999999999999999999}', b'{"step_num": 4, "step_num": 5}', b"{}", b"",
    b"1} {", b"1}\n{", b"1}\r", b'1, "value": 9', b'1, "value": "x"', b'1, "key": "b"',
    b'1, "event_type": "INTERVAL_START"',
    b'1}\n:::MLLOG {"key": "b"', b"1}\n\n:::MLLOG {", b"\n1", b"/**/1", b" 1 ", b"\xef\xbb\xbf1", b"\x001",
)  # fmt: skip
"""Values of JSON as other writers, and attackers, may write them."""
FIELDS = {
    "namespace": b'""', "time_ms": b"1700000000000", "event_type": b'"POINT_IN_TIME"', "key": b'"loss"',
    "value": b"2.5",
    "metadata": b'{"file": "a.py", "lineno": 10, "step_num": 3}',
}  # fmt: skip


def event(fields: dict[str, bytes]) -> bytes:
    return b":::MLLOG {" + b", ".join(b'"%s": %s' % (name.encode(), raw) for name, raw in fields.items()) + b"}"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from([*FIELDS, "other"]), st.sampled_from(RAW), max_size=2), max_size=4))
def test_hostile_lines_of_mllog_cost_no_other(changes: list[dict[str, bytes]]) -> None:
    good = event(FIELDS)
    lines = [good, *(event({**FIELDS, **one}) for one in changes), good, b""]
    found = read_files(mllog.FORMAT, [InMemory(b"\n".join(lines), "a.log")], Allowance())
    assert next(len(one) for one in found.series if one.tag == "loss") >= 2


def test_an_aborted_run_of_mllog_has_no_time_to_train(tmp_path: Path) -> None:
    assert math.isnan(metrics_of("mllog/aborted.txt", tmp_path)["time_to_train_final"].value)
    lines = (SAMPLES / "mllog/success.txt").read_text().splitlines(keepends=True)
    (tmp_path / "mllog/aborted.txt").write_text("".join(line for line in lines if "run_stop" not in line))
    found = collected(tmp_path)
    assert "time_to_train_final" not in by_name(found)
    assert any("it was cut off" in one for one in found.warnings)


def test_steps_epochs_and_summary_of_dllogger(tmp_path: Path) -> None:
    found = metrics_of("dllogger/stream.json", tmp_path)
    assert fact(found["train.ips_final"]) == (605.0, "img/s", "", 6)
    assert found["train.ips_final"].wall_time == 1_700_000_015.0
    assert found["epoch/val.top1_final"].step == 1
    assert found["summary/train.ips_final"].value == 605.0


def test_printed_lines_of_dllogger(tmp_path: Path) -> None:
    found = metrics_of("dllogger/printed.txt", tmp_path)
    assert (found["loss_final"].unit, found["loss_final"].points, found["loss_final"].non_finite) == ("nat", 3, 1)
    assert found["speed_final"].value == 20.0
    assert found["epoch/accuracy_final"].value == 0.5
    assert found["summary/best_final"].value == 0.5


def test_both_backends_of_a_real_run_of_dllogger_say_the_same(tmp_path: Path) -> None:
    streamed = metrics_of("dllogger/training.json", tmp_path / "a")
    printed = metrics_of("dllogger/training.txt", tmp_path / "b")
    assert streamed.keys() == printed.keys() == {
        "train.loss_final", "train.throughput_final", "epoch/val.error_final",
        "summary/val.error_final", "summary/train.throughput_final",
    }  # fmt: skip
    assert fact(streamed["train.throughput_final"])[1:] == ("samples/s", "higher", 8)
    for name, metric in streamed.items():
        assert printed[name].value == pytest.approx(metric.value, rel=1e-2, nan_ok=True)
        assert (printed[name].unit, printed[name].points) == (metric.unit, metric.points), name
    assert streamed["train.loss_final"].unit == "", "the program gave None"


def test_lines_of_dllogger_behind_the_rank_that_a_launcher_writes(tmp_path: Path) -> None:
    lines = (SAMPLES / "dllogger/printed.txt").read_text().splitlines()
    found = written(
        "\n".join([*("x" * 100_000 for _ in range(5)), *(f"0: {line}" for line in lines), ""]), tmp_path, "a.log"
    )
    assert found["loss_final"].points == 3
    stream = (SAMPLES / "dllogger/stream.json").read_text()
    (tmp_path / "a.log").write_text(stream.replace("DLLL", "[default0]:DLLL"))
    assert by_name(collected(tmp_path))["train.ips_final"].points == 6


def test_results_that_vllm_writes_in_two_formats_count_once(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "vllm-serve/one.json", tmp_path / "one.json")
    record = {"metric": {"name": "median_ttft_ms", "benchmark_values": [99.0], "extra_info": {}}}
    (tmp_path / "one.pytorch.json").write_text(json.dumps([record]))
    found = collected(tmp_path)
    assert fact(by_name(found)["median_ttft_ms_median"]) == (12.0, "ms", "lower", 1)
    assert any("vllm-serve and hud" in one for one in found.warnings)


def test_labels_units_and_infinities_of_openmetrics(tmp_path: Path) -> None:
    found = metrics_of("openmetrics/eof.om", tmp_path)
    assert fact(found["gpu=0/train_step_seconds_final"]) == (1.5, "s", "lower", 1)
    assert found['gpu=a"b\\c\\n/train_step_seconds_final'].value == math.inf
    assert found["steps_total_final"].value == 7
    assert not any("_bucket" in name or "_created" in name for name in found)


def test_openmetrics_that_was_cut_off_is_reported(tmp_path: Path) -> None:
    written('# TYPE a gauge\na 1\na{x="1"', tmp_path, "cut.om")
    warnings = collected(tmp_path).warnings
    assert any("incomplete line" in one for one in warnings)
    assert any("# EOF" in one for one in warnings)


def test_prometheus_text_needs_no_comments(tmp_path: Path) -> None:
    (tmp_path / "node.prom").write_text('node_load1 0.25\nfree_bytes{disk="a"} 8.5e+09\n')
    found = collected(tmp_path)
    assert {one.name: one.value for one in found.metrics} == {
        "node_load1_final": 0.25,
        "disk=a/free_bytes_final": 8.5e9,
    }
    assert len(found.warnings) == 1  # that it has no end


def test_keys_of_mlflow_may_have_slashes_and_blanks(tmp_path: Path) -> None:
    run = tmp_path / "mlruns/0/abc/metrics/eval"
    run.mkdir(parents=True)
    (run / "acc rate").write_text("1700000000000 0.5 0\n1700000001000 nan 1\n1700000002000 0.75 2\n")
    models = tmp_path / "mlruns/0/models/m-1/metrics"
    models.mkdir(parents=True)
    (models / "loss").write_text("1700000000000 0.5 0 abc\n")
    found = by_name(collected(tmp_path))
    assert found.keys() == {"eval/acc rate_final"}
    assert (found["eval/acc rate_final"].value, found["eval/acc rate_final"].step) == (0.75, 2)
    assert found["eval/acc rate_final"].wall_time == 1_700_000_002.0


def test_history_of_wandb(tmp_path: Path) -> None:
    found = metrics_of("wandb/run-1.wandb", tmp_path)
    assert (found["loss_final"].value, found["loss_final"].step, found["loss_final"].points) == (1.0, 100, 7)
    assert found["eval/acc_final"].value == 0.5
    assert found["big_final"].value == math.inf
    assert math.isnan(found["nan_final"].value)


def test_wandb_is_read_up_to_the_first_damaged_record(tmp_path: Path) -> None:
    data = bytearray((SAMPLES / "wandb/run-1.wandb").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "run.wandb").write_bytes(data)
    found = collected(tmp_path)
    assert 0 < by_name(found)["loss_final"].points < 7
    assert any("damaged or cut off" in one for one in found.warnings)


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that has bytes."""
    tag, size = number << 3 | 2, len(content)
    head = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    length = b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return head + length + bytes([size]) + content


def test_a_record_of_wandb_may_be_in_several_blocks(tmp_path: Path) -> None:
    def history(step: int, **items: object) -> bytes:
        parts = [field(1, field(1, key.encode()) + field(16, json.dumps(item).encode())) for key, item in items.items()]
        return field(2, b"".join(parts) + field(2, bytes([8, step])))

    data = bytearray((SAMPLES / "wandb/run-1.wandb").read_bytes()[:7])
    for record in (history(1, loss=3.0), history(2, note="x" * 80_000, loss=2.0), history(3, loss=1.0)):
        rest, first = record, True
        while rest or first:
            room = 32_768 - len(data) % 32_768 - 7
            part, rest = rest[:room], rest[room:]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not rest]
            body = bytes([kind]) + part
            data += zlib.crc32(body).to_bytes(4, "little") + len(part).to_bytes(2, "little") + body
            first = False
    (tmp_path / "run.wandb").write_bytes(data)
    found = by_name(collected(tmp_path))["loss_final"]
    assert (found.value, found.step, found.points) == (1.0, 3, 3)


def test_two_files_with_the_same_series_are_reported(tmp_path: Path) -> None:
    for name in ("before.json", "after.json"):
        shutil.copy(SAMPLES / "hyperfine/two_commands.json", tmp_path / name)
    found = collected(tmp_path)
    assert by_name(found)["sleep 0.01/time_median"].points == 6
    assert any("in both files" in one for one in found.warnings)


def test_the_config_wins_over_the_unit_and_direction_of_the_file(tmp_path: Path) -> None:
    facts = {"tokens": {"better": "higher", "unit": "tokens/s"}}
    found = metrics_of("github-action-benchmark/bigger.json", tmp_path, metrics=facts)
    assert fact(found["tokens_median"])[1:3] == ("tokens/s", "higher")
