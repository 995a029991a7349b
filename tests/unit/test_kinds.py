"""What the name of a metric tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.kinds import kind_of

HIGHER = [
    "accuracy_final", "eval/top1_max", "val_acc", "tokens_per_second_median", "samples_per_sec",
    "throughput(tps)_p50", "goodput", "images/sec_final", "TFLOP/s/GPU", "tok/s", "coco/bbox_mAP_max", "fps",
    "memory_bandwidth_final",
    "allreduce_bandwidth", "cache_hit_rate", "eval_exact_match", "gpu_util_average", "tokens_per_minute",
    "profile/flops_utilization_percent", "val_ndcg@10", "mfu(%)_average", "eval.f1_final",
    "images_per_second_per_chip", "steps_per_second",
]  # fmt: skip
LOWER = [
    "loss_final", "trainLoss_min", "loss_metrics/global_avg_loss_final", "step_time_p95",
    "time_metrics/end_to_end(s)_p99", "vm_memory_usage_bytes", "total_wall_time", "time_to_accuracy",
    "badput_tpu_initialization_seconds", "disruptions", "perplexity_trimmed_mean", "p99_ttft_ms",
    "sec_per_step_final", "forward_ms_p50", "train_runtime", "val/cross_entropy", "LanguageCrossEntropy",
    "peak_mem_gb", "word_error_rate", "num_restarts", "val_bpb", "nll_loss", "error_rate_final", "WER_final",
    "memory/max_active(GiB)_max", "step_time_deviation_p50",
]  # fmt: skip
UNKNOWN = [
    "learning_rate_final", "loss_scale_final", "grad_norm_max", "free_memory_min", "loss_weight_final", "loss_std",
    "accuracy_count", "epoch_final", "TensorboardStartTimestamp_final", "memory_limit", "x", "", "accuracy_drop",
    "errors_per_second", "memory_bandwidth_time", "QPS w/ loadgen overhead", "time/fps", "eta_seconds",
    "compute_time_percent", "memory_utilization", "time_fraction", "reward_std", "rewards/chosen", "timer/s",
    "hit_ms_rate_lr",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "better"),
    [*((one, "higher") for one in HIGHER), *((one, "lower") for one in LOWER), *((one, "") for one in UNKNOWN)],
)
def test_the_direction_of_a_name(name: str, better: str) -> None:
    assert kind_of(name).better == better


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("total_wall_time", "s"), ("step_time_seconds_p50", "s"), ("time_metrics/end_to_end(s)_p99", "s"),
        ("latency_ms_p99", "ms"), ("vm_memory_usage_bytes", "B"), ("memory/max_active(GiB)_max", "GiB"),
        ("goodput", "%"), ("mfu(%)_average", "%"), ("badput_other_percent", "%"), ("step_time_p90", "s"),
        ("images/sec", ""), ("tokens/s_p50", ""),
        ("tokens_per_second_final", ""), ("step_time_median", ""), ("loss_final", ""), ("loss_count", ""), ("", ""),
        ("params", ""), ("items", ""), ("goodput_final", ""),
    ],
)  # fmt: skip
def test_the_unit_of_a_name(name: str, unit: str) -> None:
    assert kind_of(name).unit == unit


@pytest.mark.parametrize(
    ("name", "generated"),
    [
        ("goodput", True), ("badput_tpu_initialization_seconds", True), ("step_time_deviation_p50", True),
        ("ideal_step_time", True), ("step_time_p50", True), ("steps_per_second", True), ("disruptions", True),
        ("step_time_p95", False), ("goodput_final", False), ("my_badput_x_seconds", False), ("total_wall_time", False),
    ],
)  # fmt: skip
def test_which_metrics_are_generated(name: str, *, generated: bool) -> None:
    assert kind_of(name).generated is generated


@given(st.text())
def test_any_name_has_a_kind(name: str) -> None:
    assert kind_of(name).better in {"", "higher", "lower"}
