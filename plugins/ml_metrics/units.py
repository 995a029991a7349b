"""What the name of a metric tells: its unit, whether greater or smaller values are better, and whether it is generated.

Nothing is guessed: a name that leaves a fact open has none, and the config can state it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HIGHER = "higher"
LOWER = "lower"
NEITHER = "neither"
"""A direction that the config gives to metrics whose changes are never worse."""

SECONDS, BYTES, PERCENT = "s", "B", "%"

GENERATED = re.compile(
    r"goodput|disruptions|ideal_step_time|badput_.+_(seconds|percent)|step_time_(deviation_.+|p50|p90|p99|slowdown)"
    r"|steps_per_second"
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
_UNIT_OF_WORD = {word: unit for unit, words in _UNITS.items() for word in words}
_KNOWN_UNITS = {
    "goodput": PERCENT, "total_wall_time": SECONDS, "time_to_accuracy": SECONDS, "ideal_step_time": SECONDS,
    "step_time_p50": SECONDS, "step_time_p90": SECONDS, "step_time_p99": SECONDS, "duration": SECONDS,
    "queue_time": SECONDS, "steps_per_second": "1/s",
}  # fmt: skip
_STRATEGY = re.compile(
    r"(?<=.)_(final|max|min|average|median|p50|p90|p95|p99|std|first|count|trimmed_mean|last_n_mean|curve)$"
)
_HIGHER = frozenset(re.findall(r"\w+", """
    accuracy acc acc1 acc5 accuracies top1 top5 precision recall f1 auc auroc iou miou ap map map50 dice ndcg mrr psnr
    ssim bleu rouge rouge1 rouge2 exactmatch reward goodput throughput bandwidth busbw algbw efficiency speedup
    mfu hfu mbu gflops tflops pflops flopsutilization gpuutilization gpuutil dutycycle tps qps fps wps hitrate winrate
    successrate acceptancerate
"""))  # fmt: skip
_LOWER = frozenset(re.findall(r"\w+", """
    loss time runtime steptime elapsed latency duration seconds slowdown stall stalls wait overhead badput disruptions
    restarts retries failures timeouts misses ttft tpot itl e2el jitter memory mem rss energy cost perplexity ppl error
    errors failurerate timeoutrate wer cer rmse mse mae mape nll bpb crossentropy xent fid ece brier deviation
"""))  # fmt: skip
_NEITHER = frozenset(re.findall(r"\w+", """
    scale weight weights schedule budget remaining left eta coefficient coef ratio fraction share free available stamp
    timestamp starttimestamp limit target lr learningrate drop gap delta diff change
"""))  # fmt: skip
"""Words that change the meaning of the others: a loss scale is not a loss."""
_COUNTED = (
    r"(tok|toks|tokens?|samples?|examples?|images?|img|imgs|sequences?|seqs?|frames?|batch|batches|requests?|queries|"
    r"words?|iters?|iterations?|it|steps?|records?|rows?|episodes?|t?flops?|bytes)"
)
_A_SECOND = re.compile(rf"(?<![a-z]){_COUNTED}/s(ec|econd)?s?(?![a-z])", re.IGNORECASE)
"""`images/sec`, but not a tag `s` of a group `timer`."""
_INTERVALS = frozenset({"s", "sec", "secs", "second", "seconds", "minute", "hour", "day"})
_WORDS = re.compile(r"%|\([mun]?s\)|[KMGT]iB|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
_SCALES = {
    BYTES: ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    SECONDS: ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
}


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
    return _STRATEGY.sub("", metric)


@lru_cache(maxsize=1 << 16)
def kind_of(name: str) -> Kind:
    """Return what the name of a metric or tag tells."""
    generated = is_generated(name)
    tag = name if generated else without_strategy(name)
    words = _words(tag)
    if tag != name and name.endswith("_count"):
        return Kind()
    better = "" if tag != name and name.endswith("_std") else _direction_of(tag)
    return Kind(_KNOWN_UNITS.get(name, _unit_of(words)), better, generated)


def is_generated(name: str) -> bool:
    """Return whether the package adds a metric of this name to a run by itself."""
    return GENERATED.fullmatch(name) is not None


def quantity(value: float | None, unit: str = "") -> str:
    """Return a number with its unit: `3.09 GB`, `12 min`, `0.961`; `-` for None."""
    return f"{value:.6g}" if value is not None and not unit else quantities([value], unit)[0]


def quantities(values: Iterable[float | None], unit: str = "") -> list[str]:
    """Return numbers in one scale of their unit, with as many digits as it takes to tell different numbers apart.

    A number without a unit has six digits.
    """
    numbers = list(values)
    finite = {value for value in numbers if value is not None and math.isfinite(value)}
    if not unit:
        return ["-" if value is None else f"{value:.{_digits(finite, 6)}g}" for value in numbers]
    scale, shown = _scale(max(map(abs, finite), default=0.0), unit)
    digits = _digits({value / scale for value in finite}, 3)
    return ["-" if value is None else _with_unit(value / scale, digits, shown) for value in numbers]


def interval(lower: float | None, upper: float | None, unit: str = "") -> str:
    """Return bounds as text: `below 12 min`, `above 0.96`, `from 3 GB to 3.2 GB`; `-` if both sides are open."""
    low = None if lower is None or math.isinf(lower) else lower
    high = None if upper is None or math.isinf(upper) else upper
    least, greatest = quantities([low, high], unit)
    if low is None or high is None:
        return f"below {greatest}" if high is not None else (f"above {least}" if low is not None else "-")
    return f"from {least} to {greatest}"


def _digits(numbers: set[float], fewest: int) -> int:
    return next((digits for digits in range(fewest, 17) if _are_distinct(numbers, digits)), 17)


def _are_distinct(numbers: set[float], digits: int) -> bool:
    return len({f"{number:.{digits}g}" for number in numbers}) == len(numbers)


def _scale(greatest: float, unit: str) -> tuple[float, str]:
    """Return the factor and the unit in which the greatest number has one to three digits before the point."""
    for factor, name in _SCALES.get(unit, ()):
        if greatest >= (2 * factor if name in {"d", "h", "min"} else factor):
            return factor, name
    return 1.0, unit


def _with_unit(value: float, digits: int, unit: str) -> str:
    return f"{_number(value, digits)} {unit}" if math.isfinite(value) else f"{value}"


def _number(value: float, digits: int) -> str:
    """Return a number without an exponent where that is readable: `412`, `0.961`, `1,234`."""
    if value == 0 or not math.isfinite(value) or not 1e-4 <= abs(value) < 1e9:  # noqa: PLR2004
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _unit_of(words: list[str]) -> str:
    if not words or (len(words) > 1 and words[-2] == "per"):
        return ""
    return _UNIT_OF_WORD.get(words[-1], "")


def _direction_of(name: str) -> str:
    words = _words(name)
    joined = {first + second for first, second in pairwise(words)}  # cross entropy, hit rate
    found = joined.union(words)
    if found & _NEITHER:
        return ""
    lower, higher = found & _LOWER, found & _HIGHER
    if _A_SECOND.search(name) or any(word == "per" and after in _INTERVALS for word, after in pairwise(words)):
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


def _is_a_time(words: list[str]) -> bool:
    """Return whether a name ends with a unit of time, as `forward_ms`, or is a time for each of something."""
    times = [_UNIT_OF_WORD.get(word) in {SECONDS, "ms", "us", "ns"} for word in words]
    for_each = any(time and after == "per" for time, after in zip(times, words[1:], strict=False))
    return for_each or (len(words) > 1 and times[-1])
