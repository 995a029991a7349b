"""The facts in the name of a metric: its unit, its better direction, and whether the package generates it.

Facts are never guessed: if the name leaves one open, it is unknown, and the config can state it. Expressions are
compiled when they are first used, because every DAG file imports this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from ml_metrics.core.money import CURRENCIES
from ml_metrics.core.units import BYTES, PERCENT, SECONDS

HIGHER = "higher"
LOWER = "lower"
NEITHER = "neither"
"""A direction that the config gives to metrics whose changes are never worse."""


class Measure(StrEnum):
    """What a metric measures, which decides how large a change of it matters."""

    RATIO = "ratio"
    """A share of a whole, such as an accuracy: what is missing to the whole counts."""
    LOSS = "loss"
    COUNT = "count"
    """A number of events, such as restarts."""
    QUANTITY = "quantity"
    """Anything else, such as a time."""


_BUCKETS = (
    "productive|queue|outside_log|tpu_initialization|training_prep|program_startup|data_loading_sync|"
    "unproductive_checkpoint_(save|restore)_time|wasted_progress_from_disruption|"
    "infrastructure_recovery_from_disruption|custom_badput_events|stall|other|"
    "elastic_(slice_down|scale_up|reinitialization)"
)
_COST = rf"cost_((?P<part>{_BUCKETS})_)?(?P<currency>{'|'.join(code.lower() for code in CURRENCIES)})"
_OF_FAULTS = (
    r"recovery_seconds(_max)?|fault_(notice|restart|restore|recomputed|goodput_lost)_seconds|fault_steps_lost|"
    "fault_loss_jumps"
)
"""What faults cost: the less, the better."""
_ACHIEVED = "mfu|hfu|tokens_per_second(_per_chip)?|samples_per_second"
GENERATED = (
    r"goodput|disruptions|ideal_step_time|badput_.+_(seconds|percent)|step_time_(deviation_.+|p50|p90|p99|slowdown)"
    rf"|steps_per_second|chip_hours|{_COST}|{_ACHIEVED}|straggler_host_share|{_OF_FAULTS}|faults_(planned|survived)"
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
_TIMED = frozenset({"time", "latency", "duration", "elapsed", "runtime", "ttft", "tpot", "itl", "jitter"})
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
_OPEN = _set("""
    no not non none never nor without wo free less un anti minus vs versus
    neg negative negated inv inverse inverted reciprocal opposite complement complementary
    scale weight weights schedule budget remaining left eta coefficient coef ratio fraction share target threshold
    limit limits quota capacity allowance allowed tolerance totalmemory memorytotal totalmem memtotal
    lr learningrate stderr available unused spare headroom slack reserve surplus gap delta diff difference change
    drop drops decrease decreased decline declined fall fell reduced shrink shrinkage
    saved savings avoided averted prevented eliminated removed resolved fixed corrected recovered tolerated survived
    handled mitigated suppressed caught detected ignored skipped excluded injected
    since uptime mtbf mttf mtbi mtti alive survival lifetime
    stamp timestamp starttimestamp starttime endtime finishtime stoptime currenttime unixtime epochtime
""")
"""Words that turn the meaning of the others round or away: a loss scale is not a loss, time saved is no time spent."""
_OPEN_AT_THE_END = _set("margin reduction regression degradation saving interval window period ttl lease")
"""Words that do so behind the others: `loss_reduction`, but not `reduction_time`."""
_BETTERING = _set("improvement improvements improved gain gains benefit benefits lift uplift")
"""Words that leave open what is better when less of it is: a loss improvement is not a loss."""
_WORSENING = _set("""
    lost losing wasted waste dropped missed missing failed failing rejected false wrong bad invalid penalty
    variance var stddev cv iqr skew attack backdoor forget forgetting leakage miss misses
""")
"""Words that leave open what is better when more of it is: frames dropped per second are no throughput."""
_MATERIAL = _set("""
    audio video speech clip clips utterance song dataset simulated sim processed trained productive useful busy active
    healthy timeout sleep keepalive
""")
"""Words before or behind a time that is an amount, a setting or time well spent."""
_EVENTS = _set("""
    failure failures error errors fault faults crash crashes restart restarts disruption disruptions interruption
    interruptions interrupt interrupts preemption preemptions timeout timeouts stall stalls oom ooms incident incidents
    outage outages retry retries miss misses abort aborts eviction evictions waits exhaustion
""")
_DISTANCES = _set("between before until till to per")
"""The longer until a failure, and the more steps per failure, the better."""
_ANSWERS = _set("detection correction prevention handling recovery avoidance resilience coverage resolution mitigation")
"""The more of these behind a failure, the better."""
_RATIOS = _set("""
    accuracy acc acc1 acc5 accuracies top1 top5 precision recall f1 auc auroc iou miou ap map map50 dice ndcg mrr ssim
    exactmatch goodput mfu hfu mbu flopsutilization gpuutilization gpuutil dutycycle hitrate winrate successrate
    acceptancerate
""")
_COUNTED = (
    r"(tok|toks|tokens?|samples?|examples?|images?|img|imgs|sequences?|seqs?|frames?|batch|batches|requests?|queries|"
    r"words?|iters?|iterations?|it|steps?|records?|rows?|episodes?|t?flops?|bytes)"
)
_COUNTS = _set("""
    characters chars bits kb mb gb tb kib mib gib megabytes gigabytes ops operations items elements documents docs pages
    messages transactions predictions inferences games rays points edges nodes molecules atoms particles residues
    transitions actions trajectories rollouts jobs trials evaluations generations pixels voxels files lines patches
    clips videos utterances updates epochs lookups reads writes macs gflop tflop pflop
""")
"""What a program does, beside the words of `images/sec`."""
_A_SECOND = rf"(?i)(?<![a-z]){_COUNTED}/s(ec|econd)?s?(?![a-z])"
"""`images/sec`, but not a tag `s` of a group `timer`."""
_INTERVALS = frozenset({"s", "sec", "secs", "second", "seconds", "minute", "hour", "day"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known about a metric."""

    unit: str = ""
    better: str = ""
    """`higher`, `lower`, or empty if nothing is known."""
    generated: bool = False
    turned: bool = False
    """Whether the name has words of a direction, which others may turn round: `time_saved`, but not `score`."""
    measure: Measure | None = None
    """None if the name does not tell."""


def without_strategy(metric: str) -> str:
    """As far as the name tells: `step_time` for `step_time_trimmed_mean`; other names stay as they are."""
    return re.sub(_STRATEGY, "", metric)


def cost_metric(currency: str, bucket: str = "") -> str:
    """`cost_usd` of a run, `cost_stall_usd` of a bucket of its time."""
    return f"cost_{bucket}_{currency.lower()}" if bucket else f"cost_{currency.lower()}"


def cost_in(name: str) -> tuple[str, str] | None:
    """The currency and the bucket of a cost metric, the bucket empty for a whole run; None of another metric."""
    found = re.fullmatch(_COST, name)
    return None if found is None else (found["currency"].upper(), found["part"] or "")


@lru_cache(maxsize=1 << 16)
def kind_of(name: str) -> Kind:
    tag = name if is_generated(name) else without_strategy(name)
    if tag != name:
        return kind_of_metric(tag, name.removeprefix(f"{tag}_"))
    if (cost := cost_in(name)) is not None:
        productive = cost[1] == "productive"  # less of it may be less training
        return Kind(cost[0], "" if productive else LOWER, generated=True)
    if re.fullmatch(_OF_FAULTS, name):
        counts = {"fault_steps_lost", "fault_loss_jumps"}
        return Kind("", LOWER, True, measure=Measure.COUNT) if name in counts else Kind(SECONDS, LOWER, True)  # noqa: FBT003
    kind, generated = _kind_of_tag(name), is_generated(name)
    is_badput = generated and name.startswith("badput_")  # whatever the program calls it
    unit, better = _KNOWN_UNITS.get(name, kind.unit), LOWER if is_badput else kind.better
    return Kind(unit, better, generated, kind.turned, kind.measure)


def kind_of_metric(tag: str, strategy: str) -> Kind:
    kind = Kind(measure=Measure.COUNT) if strategy == "count" else _kind_of_tag(tag)
    return Kind(kind.unit) if strategy == "std" else kind


@lru_cache(maxsize=1 << 14)
def _kind_of_tag(tag: str) -> Kind:
    words = _words(tag.removesuffix(",none"))  # no filter of lm-evaluation-harness
    better = _direction_of(tag, words)
    turned = not better and bool(_with_pairs(words) & (_LOWER | _HIGHER) or _is_a_time(words))
    unit = "" if _is_by_the_second(tag) else _unit_of(words)
    return Kind(unit, better, turned=turned, measure=_measure_of(words, unit, better))


def _measure_of(words: list[str], unit: str, better: str) -> Measure | None:
    """What a metric measures, where its direction is known: a loss scale is not a loss."""
    found = _with_pairs(words)
    if better == HIGHER and unit in {"", PERCENT} and found & _RATIOS and "per" not in words:
        return Measure.RATIO
    if better == LOWER and found & _set("loss nll bpb crossentropy xent"):
        return Measure.LOSS
    is_count = better == LOWER and not unit and words and words[-1] in _EVENTS and words[-1].endswith("s")
    return Measure.COUNT if is_count else None


def is_bill(name: str) -> bool:
    """Of the bill of a run, which no workload writes itself."""
    return name == "chip_hours" or cost_in(name) is not None


def may_be_own(name: str) -> bool:
    """Whether an expression may have the name of a generated metric, which it then replaces."""
    return re.fullmatch(_ACHIEVED, name) is not None


def is_generated(name: str) -> bool:
    """Whether the package adds a metric of this name to a run by itself."""
    return re.fullmatch(GENERATED, name) is not None


def _words(name: str) -> list[str]:
    found = re.findall(r"%|\([mun]?s\)|[KMGT]iB|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+", name)
    words = [word.lower() for word in found]
    for at, word in enumerate(words):
        if word in {"us", "ns"} and (words[at + 1 : at + 2] == ["per"] or not _TIMED.isdisjoint(words[:at])):
            words[at] = f"({word})"  # not any word of two letters
    return words


def _unit_of(words: list[str]) -> str:
    if not words or (len(words) > 1 and (words[-2] == "per" or (words[-1] == "%" and words[-2].isdigit()))):
        return ""  # tokens per second, and the 50% of a table of percentiles
    return _UNIT_OF_WORD.get(words[-1], "")


def _direction_of(name: str, words: list[str]) -> str:
    if _is_left_open(name, words, _with_pairs(words)):
        return ""
    measured = words[: words.index("per")] if "per" in words else words
    found = _with_pairs(measured)  # less energy per token is better, and so are more tokens for it
    lower, higher = found & _LOWER, found & _HIGHER
    is_counted = _is_by_the_second(name)
    if is_counted or any(word == "per" and after in _INTERVALS for word, after in pairwise(words)):
        is_counted = is_counted or bool(higher) or _is_count(measured[-1:])
        higher = {"throughput"} if is_counted and not lower - _INTERVALS else set()  # errors per second
        lower = set()
    elif _is_a_time(words):
        lower |= {"time"}
    if _unit_of(words) == PERCENT or "utilization" in found:  # the share of a time or memory is not its amount
        lower -= {"time", "runtime", "memory", "mem"}
    if higher & {"bandwidth", "efficiency"}:  # of memory
        lower -= {"memory", "mem"}
    if lower and (not higher or _is_time_to(words)):
        return "" if _BETTERING.intersection(words) else LOWER
    return HIGHER if higher and not lower and not _WORSENING.intersection(words) else ""


def _is_left_open(name: str, words: list[str], found: set[str]) -> bool:
    """Whether words of a name, or a minus before it, may turn the meaning of the others round."""
    if found & _OPEN or re.match(r"(.*/)?\s*(1\s*)?[-!~]", name):
        return True
    named = [word for word in words if word not in _UNIT_OF_WORD]
    if named and named[-1] in _OPEN_AT_THE_END:
        return True
    return any(
        (word in _DISTANCES and not _EVENTS.isdisjoint(words[at + 1 :]))  # time to failure
        or (word in _EVENTS and after in _ANSWERS)
        or (word in _LOWER and after in {"save", "saves"})  # but not the seconds of a checkpoint save
        or (word == "zero" and after in _LOWER)
        or (word in _MATERIAL and _is_duration(after))
        or (after in _MATERIAL and _is_duration(word))
        for at, (word, after) in enumerate(pairwise(words))
    )


def _is_duration(word: str) -> bool:
    return word in {"time", "duration"} or _UNIT_OF_WORD.get(word) in _TIMES


def _is_count(words: list[str]) -> bool:
    return any(word in _COUNTS or re.fullmatch(_COUNTED, word) for word in words)


def _with_pairs(words: list[str]) -> set[str]:
    """Words, and each two neighbours as one: cross entropy, hit rate."""
    return {first + second for first, second in pairwise(words)}.union(words)


def _is_time_to(words: list[str]) -> bool:
    return any(_is_duration(word) and after == "to" for word, after in pairwise(words))


def _is_by_the_second(name: str) -> bool:
    return "/s" in name and re.search(_A_SECOND, name) is not None


def _is_a_time(words: list[str]) -> bool:
    """Whether a name ends with a unit of time, as `forward_ms`, or is a time for each of something."""
    times = [_UNIT_OF_WORD.get(word) in _TIMES for word in words]
    for_each = any(time and after == "per" for time, after in zip(times, words[1:], strict=False))
    return for_each or (len(words) > 1 and times[-1])
