"""What the name of a metric tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.kinds import kind_of

HIGHER = [
    "accuracy_final", "eval/top1_max", "val_acc", "tokens_per_second_median", "samples_per_sec",
    "throughput(tps)_p50", "goodput", "images/sec_final", "TFLOP/s/GPU", "tok/s", "coco/bbox_mAP_max", "fps",
    "memory_bandwidth_final",
    "allreduce_bandwidth", "cache_hit_rate", "eval_exact_match", "gpu_util_average", "tokens_per_minute",
    "profile/flops_utilization_percent", "val_ndcg@10", "mfu(%)_average", "eval.f1_final",
    "images_per_second_per_chip", "steps_per_second", "results/arc_easy/acc,none",
]  # fmt: skip
LOWER = [
    "loss_final", "trainLoss_min", "loss_metrics/global_avg_loss_final", "step_time_p95",
    "time_metrics/end_to_end(s)_p99", "vm_memory_usage_bytes", "total_wall_time", "time_to_accuracy",
    "badput_tpu_initialization_seconds", "disruptions", "perplexity_trimmed_mean", "p99_ttft_ms",
    "sec_per_step_final", "forward_ms_p50", "train_runtime", "val/cross_entropy", "LanguageCrossEntropy",
    "peak_mem_gb", "word_error_rate", "num_restarts", "val_bpb", "nll_loss", "error_rate_final", "WER_final",
    "memory/max_active(GiB)_max", "step_time_deviation_p50", "ns_per_op", "latency_us",
]  # fmt: skip
UNKNOWN = [
    "learning_rate_final", "loss_scale_final", "grad_norm_max", "free_memory_min", "loss_weight_final", "loss_std",
    "accuracy_count", "epoch_final", "TensorboardStartTimestamp_final", "memory_limit", "x", "", "accuracy_drop",
    "errors_per_second", "memory_bandwidth_time", "QPS w/ loadgen overhead", "time/fps", "eta_seconds",
    "compute_time_percent", "memory_utilization", "time_fraction", "reward_std", "rewards/chosen", "timer/s",
    "hit_ms_rate_lr",
]  # fmt: skip


def words(text: str) -> list[str]:
    return text.split()


STILL_HIGHER = words("""
    speedup bandwidth goodput_average accuracy_improvement throughput_gain zero_shot_accuracy worst_accuracy
    mean_reward reward_per_episode success_rate acceptance_rate win_rate top5 map50 requests_per_second queries/sec
    env_steps_per_second documents_per_second MB_per_second bytes_per_second predictions_per_hour jobs_per_hour
    memory_efficiency gpu_utilization_percent_average hfu mbu QPS regression_accuracy
""")
STILL_LOWER = words("""
    time_per_step time_per_sample time_per_output_token ms_per_token cost_per_token energy_per_token loss_per_token
    time_to_first_token time_to_recover time_between_tokens recovery_time reduce_scatter_time grad_reduction_time
    detection_loss regression_loss margin_ranking_loss log_loss expected_calibration_error relative_error
    checkpoint_save_seconds checkpoint_saving_time startup_time idle_time wasted_time lost_seconds wasted_memory
    packet_loss speed_loss loss_increase memory_growth failure_rate timeout_rate num_timeouts audio_processing_time
    errors_per_step cost_usd cost_stall_usd badput_waiting_for_free_hosts_seconds
    errors_after_restart loss_variance memory_reserved time_to_accuracy_0.9 cache_misses ecc_errors_uncorrected
""")
TURNED_ROUND = words("""
    mean_time_between_failures time_between_restarts steps_between_failures time_to_failure steps_to_failure
    time_until_failure time_before_first_error hours_per_failure steps_per_restart tokens_per_error
    meanTimeToFailure time_since_failure time_since_last_error seconds_since_checkpoint mtbf_seconds mttf
    time_saved timeSaved memory_saved saved_seconds bytes_saved cost_savings time_saving time_save errors_avoided
    failures_avoided prevented_failures failures_prevented slowdown_avoided badput_saved stalls_eliminated
    error_reduction loss_reduction latency_reduction_ms time_reduction_seconds loss_decrease cost_reduction
    loss_improvement latency_improvement step_time_improvement time_gain memory_benefit
    steps_without_error loss_without_dropout no_error non_error nonError error_less_steps not_accuracy anti_accuracy
    error_free_steps error_free_time zero_errors zero_error_rate un_error accuracy_w/o_augmentation
    negative_loss neg_loss minus_loss -loss eval/-loss 1-accuracy one_minus_accuracy inverse_time inv_error
    inverted_accuracy reciprocal_latency !accuracy
    memory_headroom latency_headroom time_slack latency_margin memory_margin unused_memory memory_reserve
    free_memory available_mem memory_left memory_capacity gpu_total_memory_gb MemTotal error_tolerance error_budget
    error_detection_rate error_correction_rate corrected_errors errors_fixed failures_survived tolerated_failures
    failure_recovery_rate injected_failures error_handling_coverage
    goodput_lost lost_goodput accuracy_lost wasted_throughput rejected_throughput failed_requests_per_second
    dropped_frames_per_second dropped_frames/s throughput_drop accuracy_degradation accuracy_loss bandwidth_loss
    accuracy_variance accuracy_regression false_acceptance_rate attack_success_rate forget_accuracy miss_accuracy
    crashes_per_hour preemptions_per_day dollars_per_hour usd_per_hour watts_per_second audio_seconds_per_second
    tokens_per_energy samples_per_cost tokens_per_joule ratio_of_accuracy_to_loss
    uptime up_time up_time_seconds uptime_seconds
    process_start_time_seconds survival_time_seconds time_alive lifetime_ms
    productive_time useful_seconds busy_time gpu_active_time video_seconds seconds_processed audio_duration
    simulated_seconds timeout_ms timeout_seconds poll_interval_ms window_seconds lease_seconds keepalive_seconds
    tokens_lost cache_miss_rate downtime accuracy_vs_baseline loss_threshold per_second per
""")


@pytest.mark.parametrize(
    ("name", "better"),
    [
        *((one, "higher") for one in HIGHER + STILL_HIGHER),
        *((one, "lower") for one in LOWER + STILL_LOWER),
        *((one, "") for one in UNKNOWN + TURNED_ROUND),
    ],
)
def test_the_direction_of_a_name(name: str, better: str) -> None:
    assert kind_of(name).better == better


NEGATING = words("""
    no not non without minus negative neg inverse inverted reciprocal saved avoided averted prevented free headroom
    unused spare remaining left drop decrease reduced gap tolerated since
""")


@given(
    st.sampled_from(HIGHER + LOWER + STILL_HIGHER + STILL_LOWER),
    st.sampled_from(NEGATING),
    st.sampled_from([f"{{word}}{sep}{{name}}" for sep in "_-/. "] + [f"{{name}}{sep}{{word}}" for sep in "_-/. "]),
    st.booleans(),
)
def test_a_negating_word_leaves_the_direction_open(name: str, word: str, form: str, is_title: bool) -> None:
    assert kind_of(form.format(word=word.title() if is_title else word, name=name)).better == ""


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("total_wall_time", "s"), ("step_time_seconds_p50", "s"), ("time_metrics/end_to_end(s)_p99", "s"),
        ("latency_ms_p99", "ms"), ("vm_memory_usage_bytes", "B"), ("memory/max_active(GiB)_max", "GiB"),
        ("goodput", "%"), ("mfu(%)_average", "%"), ("badput_other_percent", "%"), ("step_time_p90", "s"),
        ("images/sec", ""), ("tokens/s_p50", ""),
        ("tokens_per_second_final", ""), ("step_time_median", ""), ("loss_final", ""), ("loss_count", ""), ("", ""),
        ("params", ""), ("items", ""), ("goodput_final", ""), ("ttft_us", "us"), ("users_us", ""),
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
