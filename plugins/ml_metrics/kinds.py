"""The facts in the name of a metric: its unit, its better direction, and whether the package generates it.

Facts are never guessed: if the name leaves one open, it is unknown, and the config can state it. Expressions are
compiled when they are first used, because every DAG file imports this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ml_metrics.money import CURRENCIES
from ml_metrics.units import BYTES, PERCENT, SECONDS

HIGHER = "higher"
LOWER = "lower"
NEITHER = "neither"
"""A direction that the config gives to metrics whose changes are never worse."""

_BUCKETS = (
    "productive|queue|outside_log|tpu_initialization|training_prep|program_startup|data_loading_sync|"
    "unproductive_checkpoint_(save|restore)_time|wasted_progress_from_disruption|"
    "infrastructure_recovery_from_disruption|custom_badput_events|stall|other|"
    "elastic_(slice_down|scale_up|reinitialization)"
)
_COST = rf"cost_((?P<part>{_BUCKETS})_)?(?P<currency>{'|'.join(code.lower() for code in CURRENCIES)})"
_ACHIEVED = "mfu|hfu|tokens_per_second(_per_chip)?|samples_per_second"
GENERATED = (
    r"goodput|disruptions|ideal_step_time|badput_.+_(seconds|percent)|step_time_(deviation_.+|p50|p90|p99|slowdown)"
    rf"|steps_per_second|chip_hours|{_COST}|{_ACHIEVED}|straggler_host_share"
)
"""The metrics that the package adds to a run by itself. `default` does not judge them."""

_UNITS = {
    SECONDS: ("(s)", "sec", "secs", "second", "seconds"),
    "ms": ("(ms)", "ms", "msec", "milliseconds"),
    "us": ("(us)", "usec", "microseconds"),
    "ns": ("(ns)", "nanoseconds"),
    BYTES: ("bytes",),
    "kB": ("kb",),
    "MB": ("mb", "megabytes"),
    "GB": ("gb", "gigabytes"),
    "KiB": ("kib",),
    "MiB": ("mib",),
    "GiB": ("gib",),
    PERCENT: ("percent", "pct", "%"),
}
_TIMES = frozenset({SECONDS, "ms", "us", "ns"})
_UNIT_OF_WORD = {word: unit for unit, words in _UNITS.items() for word in words}
_KNOWN_UNITS = {
    "goodput": PERCENT, "total_wall_time": SECONDS, "time_to_accuracy": SECONDS, "ideal_step_time": SECONDS,
    "step_time_p50": SECONDS, "step_time_p90": SECONDS, "step_time_p99": SECONDS, "duration": SECONDS,
    "queue_time": SECONDS, "steps_per_second": "1/s", "chip_hours": "chip h", "mfu": PERCENT, "hfu": PERCENT,
    "tokens_per_second": "1/s", "tokens_per_second_per_chip": "1/s", "samples_per_second": "1/s",
}  # fmt: skip
_STRATEGY = r"(?<=.)_(final|max|min|average|median|p50|p90|p95|p99|std|first|count|trimmed_mean|last_n_mean|curve)$"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HIGHER = _set("""
    accuracy acc acc1 acc5 accuracies top1 top5 precision recall f1 auc auroc iou miou ap map map50 dice ndcg mrr
    psnr ssim bleu rouge rouge1 rouge2 exactmatch reward goodput throughput bandwidth busbw algbw efficiency speedup
    mfu hfu mbu gflops tflops pflops flopsutilization gpuutilization gpuutil dutycycle tps qps fps wps hitrate
    winrate successrate acceptancerate
""")
_LOWER = _set("""
    loss time runtime steptime elapsed latency duration seconds slowdown stall stalls wait overhead badput
    disruptions restarts retries failures timeouts misses ttft tpot itl e2el jitter memory mem rss energy cost
    perplexity ppl error errors failurerate timeoutrate wer cer rmse mse mae mape nll bpb crossentropy xent fid ece
    brier deviation chiphours
""")
_NEITHER = _set("""
    scale weight weights schedule budget remaining left eta coefficient coef ratio fraction share free available
    stamp timestamp starttimestamp limit target lr learningrate drop gap delta diff change
""")
"""Words that change the meaning of the others: a loss scale is not a loss."""
_COUNTED = (
    r"(tok|toks|tokens?|samples?|examples?|images?|img|imgs|sequences?|seqs?|frames?|batch|batches|requests?|queries|"
    r"words?|iters?|iterations?|it|steps?|records?|rows?|episodes?|t?flops?|bytes)"
)
_A_SECOND = rf"(?i)(?<![a-z]){_COUNTED}/s(ec|econd)?s?(?![a-z])"
"""`images/sec`, but not a tag `s` of a group `timer`."""
_INTERVALS = frozenset({"s", "sec", "secs", "second", "seconds", "minute", "hour", "day"})
_WORDS = r"%|\([mun]?s\)|[KMGT]iB|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+"


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known about a metric."""

    unit: str = ""
    better: str = ""
    """`higher`, `lower`, or empty if nothing is known."""
    generated: bool = False


def without_strategy(metric: str) -> str:
    """Return the tag that a metric was made from, as far as its name tells: `step_time` for `step_time_trimmed_mean`.

    A name that does not end with a strategy is returned as it is.
    """
    return re.sub(_STRATEGY, "", metric)


def cost_metric(currency: str, bucket: str = "") -> str:
    """Return the name of the metric for the cost of a run, or of a bucket of its time: `cost_stall_usd`."""
    return f"cost_{bucket}_{currency.lower()}" if bucket else f"cost_{currency.lower()}"


def cost_in(name: str) -> tuple[str, str] | None:
    """Return the currency and the bucket of a cost metric, the bucket empty for a whole run; None of another metric."""
    found = re.fullmatch(_COST, name)
    return None if found is None else (found["currency"].upper(), found["part"] or "")


@lru_cache(maxsize=1 << 16)
def kind_of(name: str) -> Kind:
    """Return the facts in the name of a metric or tag."""
    tag = name if is_generated(name) else without_strategy(name)
    if tag != name:
        return kind_of_metric(tag, name.removeprefix(f"{tag}_"))
    if (cost := cost_in(name)) is not None:
        productive = cost[1] == "productive"  # less of it may be less training
        return Kind(cost[0], "" if productive else LOWER, generated=True)
    kind = _kind_of_tag(name)
    return Kind(_KNOWN_UNITS.get(name, kind.unit), kind.better, is_generated(name))


def kind_of_metric(tag: str, strategy: str) -> Kind:
    """Return what is known about the metric that a strategy makes of a tag."""
    kind = Kind() if strategy == "count" else _kind_of_tag(tag)
    return Kind(kind.unit) if strategy == "std" else kind


@lru_cache(maxsize=1 << 14)
def _kind_of_tag(tag: str) -> Kind:
    words = _words(tag)
    return Kind("" if _is_by_the_second(tag) else _unit_of(words), _direction_of(tag, words))


def is_bill(name: str) -> bool:
    """Return whether a metric is part of the bill of a run, which no workload writes itself."""
    return name == "chip_hours" or cost_in(name) is not None


def may_be_own(name: str) -> bool:
    """Return whether an expression may have the name of a generated metric, which it then replaces."""
    return re.fullmatch(_ACHIEVED, name) is not None


def is_generated(name: str) -> bool:
    """Return whether the package adds a metric of this name to a run by itself."""
    return re.fullmatch(GENERATED, name) is not None


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(_WORDS, name)]


def _unit_of(words: list[str]) -> str:
    if not words or (len(words) > 1 and words[-2] == "per"):
        return ""
    return _UNIT_OF_WORD.get(words[-1], "")


def _direction_of(name: str, words: list[str]) -> str:
    joined = {first + second for first, second in pairwise(words)}  # cross entropy, hit rate
    found = joined.union(words)
    if found & _NEITHER:
        return ""
    lower, higher = found & _LOWER, found & _HIGHER
    if _is_by_the_second(name) or any(word == "per" and after in _INTERVALS for word, after in pairwise(words)):
        return "" if lower - _INTERVALS else HIGHER  # errors per second
    if _is_a_time(words):
        lower |= {"time"}
    if _unit_of(words) == PERCENT or "utilization" in found:  # the share of a time or memory is not its amount
        lower -= {"time", "runtime", "memory", "mem"}
    if higher & {"bandwidth", "efficiency"}:  # of memory
        lower -= {"memory", "mem"}
    if lower and (not higher or "to" in found):  # time to accuracy
        return LOWER
    return HIGHER if higher and not lower else ""


def _is_by_the_second(name: str) -> bool:
    return "/s" in name and re.search(_A_SECOND, name) is not None


def _is_a_time(words: list[str]) -> bool:
    """Return whether a name ends with a unit of time, as `forward_ms`, or is a time for each of something."""
    times = [_UNIT_OF_WORD.get(word) in _TIMES for word in words]
    for_each = any(time and after == "per" for time, after in zip(times, words[1:], strict=False))
    return for_each or (len(words) > 1 and times[-1])
