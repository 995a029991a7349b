"""What no source reads is shown with the configuration that reads it, and that configuration really does."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.yaml import parse_yaml
from ml_metrics.core.limits import Allowance, Limits
from ml_metrics.measure import Explained, collect_run, explain_file
from ml_metrics.measure.proposals import propose
from ml_metrics.store.run_folder import RunFolder

SAMPLES = Path(__file__).parent / "formats/samples"
FOREIGN = Path(os.environ.get("ML_METRICS_SAMPLES", "/nowhere"))
"""A folder of more files of other programs, each of which may be of any format or none."""


def explained(folder: Path) -> list[Explained]:
    place = RunFolder(str(folder))
    return [explain_file(file, place, MetricCollectionConfig(), Limits()) for file in place.files()]


def pasted(one: Explained, folder: Path) -> dict[str, float]:
    """The metrics that the printed lines give."""
    content = parse_yaml("\n".join(one.lines()), "t.yaml")[0]
    config = MetricCollectionConfig.model_validate(content["metric_collection_config"])
    found = collect_run(config, RunFolder(str(folder)), None)
    conditions = content["regression_test_config"]["metric_success_conditions"]
    assert conditions
    assert conditions.keys() <= {metric.name for metric in found.metrics}
    return {metric.name: metric.value for metric in found.metrics}


def proposed(folder: Path, name: str, content: str) -> dict[str, float]:
    (folder / name).write_text(content)
    (one,) = explained(folder)
    assert one.proposed
    assert not one.source
    given = pasted(one, folder)
    assert given == {metric.name: pytest.approx(metric.value, nan_ok=True) for metric in one.metrics}
    return given


@pytest.mark.parametrize(
    ("name", "content", "metrics"),
    [
        ("a.json", {"eval": {"accuracy": 0.9}, "seed": 7, "time": 1.79e9}, {"eval/accuracy": 0.9}),
        ("a.json", {"runs": [{"name": "x", "p99": 1}, {"name": "y", "p99": 2}]}, {"x/p99": 1, "y/p99": 2}),
        ("a.json", [{"name": "x", "p99": 1}], {"x/p99": 1}),
        (
            "a.json",
            [{"model": "m", "batch": 1, "speed": 5}, {"model": "m", "batch": 2, "speed": 6}],
            {"m/1/speed": 5, "m/2/speed": 6, "m/1/batch": 1, "m/2/batch": 2},
        ),
        ("a.json", [{"v": 1}, {"v": 2}], {"1/v": 2, "0/v": 1}),
        ("a.json", {"log": [{"step": step, "loss": 5 - step} for step in range(4)]}, {"loss_final": 2}),
        ("a.json", {key: {"p99": 2} for key in "xyz"}, {"x/p99": 2, "y/p99": 2, "z/p99": 2}),
        ("a.json", {"a b": {"c{d}": 1}}, {"a b/c(d)": 1}),
        ("a.txt", '{"it": 1, "loss": 3}\n{"it": 2, "loss": 2}\n{"it": 3, "loss": 1}\n', {"loss_final": 1}),
        ("a.csv", "model,speed\nx,5\ny,6\n", {"x/speed": 5, "y/speed": 6}),
        ("a.yaml", "accuracy: 0.5\nspeed: 2,311 img/s\n", {"accuracy": 0.5, "speed": 2311}),
        ("a.json", {"git_hash": "1a2b3c", "model": "8x7B", "took": "312.4"}, {"took": 312.4}),
        (
            "a.json",
            {"suite": "s", "ops": [{"op": "mul", "at": [{"m": 1, "ms": 2}]}, {"op": "add", "at": [{"m": 1, "ms": 3}]}]},
            {"mul/ms": 2, "mul/m": 1, "add/ms": 3, "add/m": 1},
        ),
        (
            "a.json",
            [{"epoch": at, "split": split, "loss": at + len(split)} for at in (1, 2, 3) for split in ("val", "train")],
            {"val/loss_final": 6, "train/loss_final": 8},
        ),
        (
            "a.json",
            [{"epoch": at, "metrics": [{"name": "loss", "value": -at}, {"name": "acc", "value": at}]} for at in (1, 2)],
            {"metrics/loss/value_final": -2, "metrics/acc/value_final": 2},
        ),
        (
            "a.json",
            [{"at": "2026-11-29T10:00:00Z", "pkg": "x", "s": 1}, {"at": "2026-11-30", "pkg": "y", "s": 2}],
            {"x/s": 1, "y/s": 2},
        ),
        (
            "a.json",
            [{"epoch": at, "model": "m", "seen": n, "loss": 9 - n} for n, at in enumerate((1, 2, 3, 2, 3))],
            {"loss_final": 5, "seen_final": 4},
        ),
        ("a.json", {"rows": [[1, 2.5], [2, 3.5]]}, {"rows/0": 1.5, "rows/1": 3}),
        ("a.json", [{"bench": "a", "ms": one} for one in (1.25, 1.5, 9.5)], {"a/ms": 1.5}),
        (
            "a.tsv",
            "# by eval.sh 1.2\n# model\tm\ntask\tscore\nmmlu\t0.5\narc\t0.25\n",
            {"mmlu/score": 0.5, "arc/score": 0.25},
        ),
        ("a.toml", "[a]\nb = 0.5\n", {"a/b": 0.5}),
        ("a.xml", '<r><t name="x" v="1"/><t name="y" v="2"/></r>', {"x/v": 1, "y/v": 2}),
        ("a.txt", "Threads: 4\n  events per s:  9.5\n", {"log/threads_final": 4, "log/events_per_s_final": 9.5}),
        (
            "a.txt",
            "10:00:00,123 step 1 loss=3.5, acc: 40% lr 1e-4\n10:00:07,001 step 2 loss=nan, acc: 50% lr 1e-4\n",
            {"log/loss_final": math.nan, "log/acc_percent_final": 50, "log/lr_final": 1e-4},
        ),
        (
            "a.txt",
            "Function    Best Rate MB/s  Avg time\n-----\n\nCopy:     85122.3     0.0019\nScale:  64211.1     0.0025\n",
            {
                "log/copy_best_rate_mb_per_s_final": 85122.3,
                "log/copy_avg_time_final": 0.0019,
                "log/scale_best_rate_mb_per_s_final": 64211.1,
                "log/scale_avg_time_final": 0.0025,
            },
        ),
        (
            "a.txt",
            " 123      context-switches          #   99.6 /sec\n  1.25 seconds time elapsed\n",
            {"log/context_switches_final": 123, "log/time_elapsed_seconds_final": 1.25},
        ),
        (
            "a.txt",
            "epoch=0/global_step=10, mom=[(0.9, 0.95)]\nepoch=0/global_step=20, mom=[(0.9, 0.95)]\n",
            {"log/epoch_final": 0, "log/mom_final": 0.9, "log/mom_2_final": 0.95},
        ),
        ("a.json", [{"took": "0 days 00:00:12.3", "v": 1}, {"took": "0 days 00:00:11", "v": 2}], {"0/v": 1, "1/v": 2}),
        (
            "a.txt",
            "Time per request:  15.3 [ms] (mean)\nTime per request:  1.5 [ms] (mean, of all)\n",
            {"log/time_per_request_ms_mean_final": 15.3, "log/time_per_request_ms_mean_of_all_final": 1.5},
        ),
        (
            "a.txt",
            "[READ], Average(us), 1055.1\n[UPDATE], Average(us), 1255.3\n",
            {"log/read_average_us_final": 1055.1, "log/update_average_us_final": 1255.3},
        ),
        (
            "a.txt",
            "  2 threads and 100 connections\n  Latency  6.1ms  2.5ms\n 99.900%  18.1ms\n  410 requests in 30.0s\n",
            {"log/latency_ms_final": 6.1, "log/latency_2_ms_final": 2.5, "log/p99_9_ms_final": 18.1},
        ),
        (
            "a.txt",
            "BenchmarkA/n=10-8  \t 100\t 932.1 ns/op\t 896 B/op\n",
            {
                "log/benchmarka_n_10_8_final": 100,
                "log/benchmarka_n_10_8_ns_per_op_final": 932.1,
                "log/benchmarka_n_10_8_b_per_op_final": 896,
            },
        ),
        (
            "a.txt",
            "---Time (excl. 1st token)---\nRequests per second: 652.5 [#/sec]\n",
            {"log/requests_per_second_final": 652.5},
        ),
        ("a.json", {"loss": [3, 2, 1], "acc": [0, 1, 2], "top": 2}, {"loss_final": 1, "acc_final": 2, "top": 2}),
        ("a.json", {"latencies": [3, 2, 4]}, {"latencies": 3}),
        (
            "a.json",
            [{"name": name, "at": {key: {"v": at} for key in "pqr"}} for at, name in enumerate("xy")],
            {f"{key}/{name}/v": at for at, name in enumerate("xy") for key in "pqr"},
        ),
        (
            "a.json",
            [{"kind": "k", "at": {key: {"v": at} for key in "pqr"}} for at in (0, 1)],
            {f"{at}/{key}/v": at for at in (0, 1) for key in "pqr"},
        ),
        (
            "a.json",
            [
                {"event": "begin", "count": 2},
                {"name": "x", "event": "b", "ms": 1},
                {"name": "y", "event": "b", "ms": 3},
            ],
            {"count": 2, "x/ms": 1, "y/ms": 3},
        ),
        (
            "a.csv",
            "time,commit,p50\n2026-11-28,aa,5\n2026-11-29,bb,6\n2026-11-30,cc,7\n",
            {"p50_final": 7},
        ),
        (
            "a.json",
            [{"date": f"2026-11-{at}", "name": f"b{at}", "v": at} for at in (28, 29)],
            {"b28/v": 28, "b29/v": 29},
        ),
        ("a.yaml", "%YAML 1.2\n--- # first\nname: a\nf1: 1\n---\nname: b\nf1: 2\n...\n", {"a/f1": 1, "b/f1": 2}),
        (
            "a.log",
            "".join(
                f"2026-11-30 10:00:0{at},123 - INFO - step {at} loss={at}.5 speed=1,23{at} img/s\n" for at in (2, 4)
            ),
            {"log/loss_final": 4.5, "log/speed_img_per_s_final": 1234},
        ),
        (
            "a.log",
            "".join(
                f"\x1b[32mINFO\x1b[0m step {at} loss \x1b[1m{at}.5\x1b[0m tok/s 1,23{at} img/s 5{at}\n" for at in (2, 4)
            ),
            {"log/loss_final": 4.5, "log/tok_per_s_final": 1234, "log/img_per_s_final": 54},
        ),
        (
            "a.log",
            "step=2 loss=2.5 tokens/sec=12345\nloss 1.5 tok/s 9 lr 3\nread: 1.5 MB/s 2.5 MB/s\nsaved loss: 4.5 ms=45\n",
            {
                "log/step_loss_final": 2.5,
                "log/tokens_per_sec_final": 12345,
                "log/loss_final": 1.5,
                "log/tok_per_s_final": 9,
                "log/lr_final": 3,
                "log/read_mb_per_s_final": 1.5,
                "log/read_2_mb_per_s_final": 2.5,
                "log/saved_loss_final": 4.5,
                "log/ms_final": 45,
            },
        ),
        (
            "a.log",
            (
                "step 7/9 | loss 3.5 (+1.2z)| 123.4 ms | 58.3% bf16 MFU | 423,444 tok/s\nTime: 1.5 sec, 98.5 TFLOPS\n"
                "WER 5.4% [ 123 / 2280, 10 ins, 20 del, 93 sub ]\nlr: [(0.9, 0.95)]\n"
            ),
            {
                "log/loss_final": 3.5,
                "log/loss_z_final": 1.2,
                "log/ms_final": 123.4,
                "log/bf16_mfu_percent_final": 58.3,
                "log/tok_per_s_final": 423_444,
                "log/time_sec_final": 1.5,
                "log/tflops_final": 98.5,
                "log/wer_percent_final": 5.4,
                "log/wer_final": 123,
                "log/wer_2_final": 2280,
                "log/ins_final": 10,
                "log/del_final": 20,
                "log/sub_final": 93,
                "log/lr_final": 0.9,
                "log/lr_2_final": 0.95,
            },
        ),
        (
            "a.log",
            (
                "Epoch 1:  50%|#▌  | 5/10 [00:01<00:01, 4.80it/s, v_num=0, loss=2.5]\r"
                "Epoch 1: 100%|####| 10/10 [00:02<00:00,  4.91it/s, v_num=0, loss=1.5]\n"
            ),
            {"log/it_per_s_final": 4.91, "log/v_num_final": 0, "log/loss_final": 1.5},
        ),
        (
            "a.log",
            "1\timages/sec: 250.1 +/- 0.5 (jitter = 0.2)\n10 examples in 2.5 seconds, 4.5 examples/sec\n0: loss: nan\n",
            {
                "log/images_per_sec_final": 250.1,
                "log/images_per_sec_2_final": 0.5,
                "log/jitter_final": 0.2,
                "log/examples_per_sec_final": 4.5,
                "log/loss_final": math.nan,
            },
        ),
        ("a.log", "Step 5\narea (m²): 12.5\n", {"log/area_m2_final": 12.5}),
        (
            "a.log",
            (
                "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.5\nTrain Epoch: 2 [1280/60000 (2%)]\tLoss: 1.5\n"
                "Accuracy of the network on the 10000 test images: 54 %\nperplexity is 12.5\n"
                "BLEU4 = 29.5, 61.5/35.2/22.6/15.0 (BP=0.9)\nTotal: 1h 23m 45s, mean 2.5 ms, p99 3.5 ms over 9 runs\n"
            ),
            {
                "log/loss_final": 1.5,
                "log/accuracy_of_the_network_percent_final": 54,
                "log/perplexity_final": 12.5,
                "log/bleu4_final": 29.5,
                "log/bp_final": 0.9,
                "log/mean_ms_final": 2.5,
                "log/p99_ms_final": 3.5,
            },
        ),
        ("a.log", "Loss at step 100 is 2.5\nLoss at step 200 is 1.5\n", {"log/loss_final": 1.5}),
        ("a.log", "Accuracy after epoch 1: 0.5\nAccuracy after epoch 2: 0.75\n", {"log/accuracy_final": 0.75}),
        (
            "a.log",
            (
                "reward over the last 100 episodes: 7.5\nloss (step 9): 1.5\nspeed for n=8 is 2.5 | a nan steps: 0\n"
                "time for epoch: 4.5s\n"
            ),
            {
                "log/reward_final": 7.5,
                "log/loss_final": 1.5,
                "log/speed_final": 2.5,
                "log/a_nan_steps_final": 0,
                "log/time_for_epoch_seconds_final": 4.5,
            },
        ),
        ("a.log", "=> Test Acc@1 76.1 Acc@5 92.8\n", {"log/test_acc_1_final": 76.1, "log/acc_5_final": 92.8}),
    ],
)
def test_the_proposed_lines_read_a_file(name: str, content: Any, metrics: dict[str, float], tmp_path: Path) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    assert proposed(tmp_path, name, text) == pytest.approx(metrics, nan_ok=True)


def test_a_file_of_a_known_format_under_another_name_is_stated(tmp_path: Path) -> None:
    given = proposed(tmp_path, "startup.out1", (SAMPLES / "hyperfine/two_commands.json").read_text())
    assert given["sleep 0.01/time_median"] > 0
    (one,) = explained(tmp_path)
    assert one.proposed == {"formats": {"stated": {"hyperfine": ["startup.out1"]}}}


@pytest.mark.parametrize(
    "name", ["r[1]_20261129T1000.json", "r[1]_1790000000.json", "r[1]_2026-11-29T10-00-07.25.json"]
)
def test_the_proposed_lines_read_the_next_run_whose_files_have_another_time_in_their_names(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text('{"accuracy": 0.5}')
    (one,) = explained(tmp_path)
    (tmp_path / name).rename(tmp_path / re.sub("2[0-9T.-]+[05]|1790000000", "20270102T0304", name))
    assert pasted(one, tmp_path) == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("now", "later"),
    [
        ("I1130 10:00:00.123456 140023 train.py:100] ", "I1201 09:00:07.003000 99 train.py:100] "),
        ("[11/30/2026-10:00:00] [I] ", "[01/02/2027-09:07:00] [I] "),
        ("[11/30 10:00:00 d2.utils]: ", "[01/02 09:07:00 d2.utils]: "),
        ("INFO 11-30 10:00:00 [metrics.py:7] ", "INFO 01-02 09:07:00 [metrics.py:7] "),
        ("[2026.11.30 10:00:00] ", "[2027.01.02 09:07:00] "),
        ("2026-11-30T10:00:00Z ", "2027-01-02T09:07:00Z "),
        ("2026-06-30T10:00:00.123+0200 ", "2027-01-02T09:07:00.007+0100 "),
        ("20261130 10:00:00 ", "20270102 09:07:00 "),
        ("1790000000.123 ", "1799999999.5 "),
        ("Nov 30 10:00:00 node train[123]: ", "May  3 09:07:00 node train[7]: "),
        ("Mon Nov 30 10:00:00 2026 ", "Sat Jan  2 09:07:00 2027 "),
        ("Mon, 30 Nov 2026 10:00:00 at ", "Sat, 02 Jan 2027 09:07:00 at "),
        ("took 59m 3s, ", "took 1h 2m 3.5s, "),
        ("run 5f2a1b3c-1234-5678-9abc-def012345678 ", "run 00000000-0000-0000-0000-000000000000 "),
        ("at 0x7f3c21 ", "at 0x1 "),
        ("[1,0]<stdout>: ", "[1,1]<stdout>: "),
        ("0: ", "13: "),
    ],
)
def test_the_proposed_lines_read_the_log_of_the_next_run(now: str, later: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"{now}loss: 2.5\n")
    (one,) = explained(tmp_path)
    (tmp_path / "a.log").write_text(f"{later}loss: 1.5\n")
    assert list(pasted(one, tmp_path).values()) == [1.5]


def test_the_proposed_lines_read_numbers_that_the_next_run_prints_in_another_unit(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("Latency  950.5ms  12.5KiB\nReq/Sec: 8.5k\ntotal: 2.5us\n")
    (one,) = explained(tmp_path)
    (tmp_path / "a.log").write_text("Latency  1.5s  2MiB\nReq/Sec: 950\ntotal: 0.5ms\n")
    assert pasted(one, tmp_path) == pytest.approx(
        {
            "log/latency_ms_final": 1500,
            "log/latency_kib_final": 2048,
            "log/req_per_sec_final": 950,
            "log/total_usec_final": 500,
        }
    )


def test_names_that_yaml_reads_otherwise_are_quoted(tmp_path: Path) -> None:
    keys = [
        "yes", "null", "1e5", "a: b", "#", "'", '"', "\\", "é", "😀", "\u2028", "\x85", "\x7f", "a\nb", "{", "-", "",
    ]  # fmt: skip
    given = proposed(tmp_path, "a.json", json.dumps({"x": dict.fromkeys(keys, 1.5)}))
    assert set(given.values()) == {1.5}


def test_a_file_without_numbers_has_no_proposal(tmp_path: Path) -> None:
    contents = {
        "a.txt": "hello\n", "b.json": '{"a": "b"}', "c.bin": "\0 a: 1\n", "d.json": "{", "f.csv": "1,,2.5\n2,,3.5\n",
        "e.csv": "2026/11/30 10:00:00.123, 0, 95\n2026/11/30 10:00:01.123, 0, 96\n",
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    assert [(one.source, one.proposed, one.metrics) for one in explained(tmp_path)] == [("", {}, ())] * 6


def test_what_is_wrong_with_a_document_is_said_and_its_lines_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n "read": {\n  "mean": 1\n },\n "write": {\n  "mean": 2\n },\n}\n')
    (one,) = explained(tmp_path)
    assert not one.proposed
    assert one.warnings[0].startswith("a.json: not read: is not whole JSON: ")


def test_what_is_left_out_of_a_long_report_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "".join(f"count of {chr(97 + at // 26)}{chr(97 + at % 26)}: 1\n" for at in range(60))
    )
    (one,) = explained(tmp_path)
    assert len(one.metrics) == 50
    assert one.warnings == ("a.txt: 10 more kinds of lines hold numbers, and are left out here",)


values = st.recursive(
    st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4) | st.none() | st.booleans(),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=4), one, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values)
def test_any_document_is_read_by_what_is_proposed_for_it(tmp_path: Path, document: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document))
    (one,) = explained(tmp_path)
    if one.proposed:
        given = pasted(one, tmp_path)
        assert given.keys() == {metric.name for metric in one.metrics}


TOKENS = (
    "loss", "step", "Acc@1", "per", "é", "²", "٣", "=", ": ", " | ", ", ", "[", "]", "(", ")", "\\", "^", "'", '"', "{",
    ".", "2.3", "10/100", "12%", "1e-4", "nan", "1,234", "5.", "+1.2z", "1_000", "tok/s", "ms", "µs", "bytes", "m²",
    "10:00:00", "I1130 10:00:00.1", "Nov 30 10:00:00", "01/02 10:00", "1790000000.5", "0x1f", "50%|##  |", "a.py:12:",
    "\x1b[32m", "at", "on the", "(step", "is", "mean", "1h 23m", "4/5/6", "[5/9 (1%)]",
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from(("", " ", "  "))), max_size=14))
def test_any_line_of_a_log_is_matched_by_what_is_proposed_for_it(parts: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "a.log").write_text("".join(map("".join, parts)) + "\n")
        (file,) = RunFolder(folder).files()
        sources, _ = propose(file, Allowance(Limits()))
        MetricCollectionConfig.model_validate({"sources": sources})  # which compares each line with its example


@pytest.mark.parametrize(
    "folder",
    [one for root in (SAMPLES, FOREIGN) if root.is_dir() for one in sorted(root.iterdir())],
    ids=lambda one: one.name,
)
def test_every_sample_is_read_or_told_how(folder: Path) -> None:
    if folder.is_file():
        return
    for one in explained(folder):
        assert one.metrics or one.warnings or not one.proposed
        if one.proposed:
            assert pasted(one, folder)
