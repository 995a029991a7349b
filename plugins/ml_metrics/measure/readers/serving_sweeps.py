"""Results of load generators and benchmarks of models, of which several make a curve over load, length or batch."""

from __future__ import annotations

import csv
import math
import re
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import HIGHER, LOWER, kind_of
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Beginning, Format, each, each_object, keys_of, lines_of, value_of
from ml_metrics.measure.readings import REPEATS
from ml_metrics.measure.sweeps import Axis, Value, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ml_metrics.measure.readings import Readings


UNITS = {
    "tokens/sec": "tokens/s", "tok/s": "tokens/s", "t/s": "tokens/s", "tokens/sec/user": "tokens/s/user",
    "tok/s/user": "tokens/s/user", "requests/sec": "1/s", "req/sec": "1/s", "req/s": "1/s", "sec": "s",
}  # fmt: skip
STATISTICS = frozenset({"avg", "mean", "median", "p50", "p90", "p95", "p99", "p99.9"})
SPREADS = ("std", "stddev", "stdev", "stddev_ts")
RATE, TOKEN_RATE = Stated("1/s", HIGHER), Stated("tokens/s", HIGHER)
IN_BRACKETS = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*$")


def facts(name: str, unit: str = "") -> Stated:
    """What is known about a y: a unit that its file states, else what its name tells."""
    kind = kind_of(name.replace(" ", "_"))
    unit = UNITS.get(unit, unit) or kind.unit
    better = HIGHER if "/s" in unit and not unit.startswith("errors") else kind.better
    spread = "std" in name.lower()
    return Stated(unit, "" if spread else better)


def count_of(value: Any) -> int | None:
    found = number(value)
    return None if found is None or found < 0 else int(found)


def dotted(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of nested objects, each under its path."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from dotted(value, f"{name}.{key}" if name else str(key))
    elif not isinstance(content, str) and (found := value_of(content)) is not None:
        yield name, found


# inference-perf: {"load_summary": {"requested_rate": 4}, "successes": {"count": 9, "latency": {...}}, "failures": ...}

LOADS = ("requested_rate", "concurrency")


def is_stage(file: Beginning) -> bool:
    summary = keys_of(file.document, "load_summary")
    return bool(summary) and "successes" in file.document and not summary.keys().isdisjoint(LOADS)


def read_stage(found: Readings) -> None:
    document = found.document()
    summary, parts = document["load_summary"], {name: document.get(name) for name in ("successes", "failures")}
    done, failed = (number(keys_of(parts, name).get("count")) for name in parts)
    values = {}
    for name, y in dotted({"load_summary": summary, **parts}):
        path, last = name.split("."), name.removesuffix(".p99.9").rpartition(".")[2]
        if "latency" in path and (last in STATISTICS or name.endswith(".p99.9")):
            values[name] = Value(y, "s", LOWER)
        elif "throughput" in path or last == "achieved_rate":
            is_rate = "request" in last or last == "achieved_rate"
            values[name] = Value.of(y, RATE if is_rate else TOKEN_RATE)
    settings = {name: summary[name] for name in LOADS if name in summary}
    achieved, is_failure = number(summary.get("achieved_rate")), not done and bool(failed)
    found.measured(settings, values, samples=count_of(done), failed=is_failure, achieved=achieved)


# vLLM: `vllm bench serve --save-result` and `--append-result`, also repeats of what was measured once

BACKENDS = ("backend", "endpoint_type")
"""What results name what was measured by: `endpoint_type` alone in vLLM 0.8, both in later versions."""
DIMENSIONS_OF_VLLM = ("model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness", "max_concurrency")
"""What a measurement was made with. They are in the tag where they differ."""
SETTINGS_OF_VLLM = frozenset({
    *DIMENSIONS_OF_VLLM, *BACKENDS, "date", "label", "best_of", "ramp_up_strategy", "ramp_up_start_rps",
    "ramp_up_end_rps", "start_times",
})  # fmt: skip
TOKENS = Stated("tokens/s", HIGHER, repeats=True)
STATED_BY_VLLM = {
    "duration": Stated("s", LOWER, repeats=True),
    **dict.fromkeys(("request_throughput", "request_goodput"), Stated("1/s", HIGHER, repeats=True)),
    **dict.fromkeys(("output_throughput", "total_token_throughput", "max_output_tokens_per_s"), TOKENS),
}
SECONDS = re.compile(r"(mean|median|p[\d.]+)_(ttft|tpot|itl|e2el)")
"""A variant writes seconds, and no unit."""


def is_vllm(file: Beginning) -> bool:
    options, latencies = {*BACKENDS, "burstiness"}, {"mean_ttft_ms", "median_ttft"}
    return lines_of("model_id", "num_prompts")(file) and all(
        options & one.keys() and latencies & one.keys() for one in file.documents
    )


def read_vllm(found: Readings) -> None:
    """Results with the same settings are repeats."""
    for result in each_object(found):
        backend = next((name for name in BACKENDS if name in result), "")
        dimensions = {
            name: value
            for name, value in result.items()
            if (name in {*DIMENSIONS_OF_VLLM, backend} and isinstance(value, str | int | float))
            or _is_own_setting(name, value)
        }
        done = result.get("completed")
        values: dict[str, Value] = {}
        for key, value in result.items():
            name = key.rstrip(":")  # as old versions wrote request_goodput
            if key in SETTINGS_OF_VLLM or key in dimensions or isinstance(value, list | dict) or value is None:
                continue
            y = value_of(value)
            if y is None:
                found.lines.reject("a value is not a number", value)
                continue
            stated = STATED_BY_VLLM.get(name, REPEATS)
            in_seconds = SECONDS.fullmatch(name) is not None
            if name.endswith("_ms") or in_seconds:
                y = y if done != 0 else math.nan
                stated = Stated("s" if in_seconds else "ms", "" if name.startswith("std_") else LOWER, repeats=True)
            found.add(name, [y], stated, dimensions=dimensions)
            values[name] = Value.of(y, stated)
        found.measured(
            dimensions,
            values,
            samples=done if isinstance(done, int) else None,
            failed=done == 0,
            achieved=values["request_throughput"].y if "request_throughput" in values else None,
        )


def _is_own_setting(name: str, value: Any) -> bool:
    """Whether a text was given with `--metadata`, which puts it beside the results."""
    return name not in SETTINGS_OF_VLLM and isinstance(value, str) and value_of(value) is None


# SGLang: {"backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "output_throughput": 812.5, ...}

SGLANG = ("backend", "dataset_name", "output_throughput", "median_ttft_ms")
SGLANG_SETTINGS = (
    "dataset_name", "backend", "request_rate", "max_concurrency", "random_input_len", "random_output_len",
    "random_range_ratio", "sharegpt_output_len", "tag",
)  # fmt: skip


def is_sglang(file: Beginning) -> bool:
    return lines_of(*SGLANG)(file) and all("model_id" not in one for one in file.documents)


def read_sglang(found: Readings) -> None:
    for one in each_object(found):
        settings = {name: one[name] for name in SGLANG_SETTINGS if one.get(name) is not None}
        values = {}
        for name, value in one.items():
            y = None if name in settings or isinstance(value, str | list | dict) else value_of(value)
            if y is not None:
                unit = "tokens/s" if name.endswith("_throughput") else ""
                values[name] = Value.of(y, RATE if name == "request_throughput" else facts(name, unit))
        done = one.get("completed")
        achieved = values["request_throughput"].y if "request_throughput" in values else None
        found.measured(settings, values, samples=count_of(done), failed=done == 0, achieved=achieved)


# AIPerf: {"input_config": {...}, "request_throughput": {"unit": "requests/sec", "avg": 4.1, "p50": ...}, ...}

LOAD_OF_AIPERF = ("concurrency", "request_rate", "user_centric_rate")


def is_aiperf(file: Beginning) -> bool:
    return bool(keys_of(file.document, "input_config")) and "unit" in keys_of(file.document, "request_throughput")


def read_aiperf(found: Readings) -> None:
    document = found.document()
    load = keys_of(document["input_config"], "loadgen")
    values = {}
    for name, metric in document.items():
        unit = metric.get("unit") if isinstance(metric, dict) else None
        if not isinstance(unit, str):
            continue
        spread = number(metric.get("std"))
        for statistic in filter(STATISTICS.__contains__, metric):
            known = facts(name, unit)
            values[f"{name}.{statistic}"] = Value(number(metric[statistic]), known.unit, known.better, spread)
    achieved, count = (number(keys_of(document, name).get("avg")) for name in ("request_throughput", "request_count"))
    settings = {name: load[name] for name in LOAD_OF_AIPERF if load.get(name) is not None}
    found.measured(settings, values, samples=count_of(count), failed=count == 0, achieved=achieved)


def read_aiperf_csv(found: Readings) -> None:
    """Two tables, of which the second has single values. The load is in the name of the folder alone."""
    values: dict[str, Value] = {}
    header: list[str] = []
    for row in csv.reader(found.text_lines()):
        if not row or row[0] in {"Metric", "Endpoint"}:
            header = row
            continue
        if header[:1] != ["Metric"]:
            continue
        name, known = with_unit(row[0])
        by_column = dict(zip(header[1:], row[1:], strict=False))
        spread = number(by_column.get("std"))
        for column, text in by_column.items():
            if column == "Value" or column in STATISTICS:
                full = name if column == "Value" else f"{name} {column}"
                values[full] = Value(number(text), known.unit, known.better, spread)
    count = values.get("Request Count")
    found.measured({}, values, samples=count_of(count.y) if count else None)


def with_unit(name: str) -> tuple[str, Stated]:
    """A name without the unit in brackets behind it, and what is known about it."""
    unit = IN_BRACKETS.search(name)
    plain = name[: unit.start()] if unit else name
    return plain.strip(), facts(plain, unit[1] if unit else "")


# A list of results of vLLM, one for each concurrency


def read_vllm_list(found: Readings) -> None:
    for one in each_object(found):
        values = {}
        for name, y in dotted(one["metrics"]):
            short = name.removesuffix("_tok_s").removesuffix("_req_s")
            unit = "tokens/s" if name.endswith("_tok_s") else "1/s" if name.endswith("_req_s") else ""
            values[f"metrics.{name}"] = Value.of(y, facts(short, unit))
        settings, done = {"concurrency": one["concurrency"]}, one["metrics"].get("successful_requests")
        found.measured(settings, values, samples=count_of(done), failed=one.get("ok") is False)


# trtllm-bench

OVERVIEW = "PERFORMANCE OVERVIEW"


def read_trtllm(found: Readings) -> None:
    values: dict[str, Value] = {}
    settings: dict[str, Any] = {}
    inside = False
    for line in found.text_lines():
        if OVERVIEW in line:
            inside = True
        elif inside and line.startswith("====") and values:
            break
        elif (parts := line.rsplit(":", 1))[-1] != line and (y := number(parts[1].strip())) is not None:
            name, known = with_unit(parts[0])
            if name in TRTLLM.names:  # newer versions print these above the overview
                settings[name] = y
            if inside:
                values[name] = Value.of(y, known)
    if not values:
        raise UnreadableInputError("has no numbers under PERFORMANCE OVERVIEW: the benchmark did not end")
    found.measured(settings, values, samples=count_of(settings.get("Number of requests")))


TRTLLM = Axis(
    ("Average Output Length", "Average Input Length", "Number of requests"),
    {"Average Output Length": "tokens", "Average Input Length": "tokens"},
)


# InferenceX

INFERENCEX = frozenset({"Concurrency", "Hardware", "ISL", "OSL"})
SETTINGS_OF_INFERENCEX = (
    "Model", "ISL", "OSL", "Hardware Key", "Hardware", "Framework", "Precision", "TP", "EP", "Concurrency", "Date",
    "Disaggregated", "Spec Decoding", "DP Attention",
)  # fmt: skip


def is_inferencex(file: Beginning) -> bool:
    header = next((line for line in file.head.split(b"\n") if not line.startswith(b"#")), b"").decode(errors="replace")
    return set(header.strip().split(",")) >= INFERENCEX


def read_inferencex(found: Readings) -> None:
    for row in rows_of_csv(line for line in found.text_lines() if not line.startswith("#")):
        settings = {name: row[name] for name in SETTINGS_OF_INFERENCEX if row.get(name)}
        values = {}
        in_seconds = _in_seconds(row)
        for name, text in row.items():
            if name not in settings and (y := number(text)) is not None:
                plain, known = with_unit(name)
                unit = "s" if in_seconds and known.unit == "ms" else known.unit
                better = HIGHER if "Interactivity" in plain and "Std" not in plain else known.better
                values[plain] = Value(y, unit, better)
        found.measured(settings, values)


def _in_seconds(row: Mapping[str, str]) -> bool:
    """Whether times are seconds where the header says ms: the tokens a second of a user are 1 / time of a token."""
    time = number(row.get("Median TPOT (ms)"))
    tokens = number(row.get("Median Interactivity (tok/s/user)"))
    return time is not None and tokens is not None and time * tokens < 30


def rows_of_csv(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The rows of a table under its first line. Surplus cells are left out, and so is a row that is cut off."""
    reader = csv.reader(lines)
    header = [name.strip() for name in next(reader, [])]
    for row in reader:
        if len(row) >= len(header):
            yield dict(zip(header, row, strict=False))


# llama-bench, llama-benchy

LLAMA = frozenset({"n_prompt", "n_gen", "avg_ts"})
LENGTHS = ("n_prompt", "n_depth", "n_gen", "n_batch", "n_ubatch", "n_threads")
SETTINGS_OF_LLAMA = (*LENGTHS, "model_filename", "backends", "build_number", "type_k", "type_v", "n_gpu_layers")


def is_llama_bench(file: Beginning) -> bool:
    if file.head.lstrip()[:1] in b"[{":
        content = file.document if isinstance(file.document, list) else file.lines
        return bool(content) and all(isinstance(one, dict) and one.keys() >= LLAMA for one in content)
    first = file.head.partition(b"\n")[0].decode(errors="replace")
    head = re.sub(rb" +", b" ", file.head)
    return {name.strip('"\r ') for name in first.split(",")} >= LLAMA or (b"| t/s |" in head and b"| test |" in head)


def read_llama_bench(found: Readings) -> None:
    with found.lines.file.open() as opened:
        first = opened.read(4096).lstrip()
    if first[:1] in b"[{":
        rows: Iterable[Mapping[str, Any]] = each_object(found)
    elif b"n_prompt" in first:
        rows = rows_of_csv(found.text_lines())
    else:
        rows = _rows_of_markdown(found)
    for row in rows:
        settings = {name: row[name] for name in SETTINGS_OF_LLAMA if row.get(name) not in (None, "")}
        for name in ("n_prompt", "n_gen"):
            if number(settings.get(name)) == 0:
                del settings[name]  # a row measures the prompt or the generation
        prompt, generation = "n_prompt" in settings, "n_gen" in settings
        settings["test"] = "pp+tg" if prompt and generation else "pp" if prompt else "tg"
        spread, spread_ns = (number(row.get(name)) for name in ("stddev_ts", "stddev_ns"))
        values = {"avg_ts": Value(number(row["avg_ts"]), "tokens/s", HIGHER, spread)}
        if spread is not None:
            values["stddev_ts"] = Value(spread, "tokens/s")
        if (time := number(row.get("avg_ns"))) is not None:
            values["avg_ns"] = Value(time, "ns", LOWER, spread_ns)
        found.measured(settings, values)


def _rows_of_markdown(found: Readings) -> Iterator[dict[str, Any]]:
    for row in tables(found):
        test = re.match(r"(?:pp(\d+))?\+?(?:tg(\d+))?(?:\s*@\s*d(\d+))?$", row.get("test", ""))
        y, spread = with_spread(row.get("t/s", ""))
        if test and y is not None:
            lengths = {"n_prompt": test[1] or "0", "n_gen": test[2] or "0", "n_depth": test[3] or "0"}
            others = {name: text for name, text in row.items() if name.startswith("n_")}
            yield {**others, **lengths, "backends": row.get("backend"), "avg_ts": y, "stddev_ts": spread,
                   "model_filename": row.get("model")}  # fmt: skip


def tables(found: Readings) -> Iterator[dict[str, str]]:
    """The rows of the tables of a Markdown file."""
    header: list[str] = []
    for line in found.text_lines():
        if not line.lstrip().startswith("|"):
            header = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not header:
            header = cells
        elif set("".join(cells)) - set("-: "):
            yield dict(zip(header, cells, strict=False))


def with_spread(text: str) -> tuple[float | None, float | None]:
    """`45.66 ± 0.02`."""
    y, _, spread = text.partition("±")
    return number(y.strip()), number(spread.strip())


def read_llama_benchy(found: Readings) -> None:
    """A row of the prompt, then one of the generation after it, whose prompt it does not name."""
    together: dict[tuple[str, str, str], dict[str, Value]] = {}
    prompts: dict[tuple[str, str], str] = {}
    for row in tables(found):
        test = re.match(r"(pp|tg)(\d+)(?:\s*@\s*d(\d+))? \(c(\d+)\)$", row.get("test", ""))
        if test is None:
            continue
        kind, length, depth, users = test.groups()
        where = (row.get("model", ""), users)
        if kind == "pp":
            prompts[where] = f"{length}@{depth}" if depth else length
        values = together.setdefault((*where, prompts.get(where, "")), {})
        for column, text in row.items():
            y, spread = with_spread(text)
            if column in {"model", "test"} or y is None:
                continue
            name = column.removesuffix(" (ms)")
            known = Stated("tokens/s", HIGHER) if "t/s" in name else Stated("ms", LOWER)
            values[f"{kind} {name}"] = Value(y, known.unit, known.better, spread)
    for (model, users, prompt), values in together.items():
        found.measured({"model": model, "concurrency": users, "prompt": prompt}, values)


VLLM = Format(
    "vllm-serve",
    (b'"model_id"', b"_ttft"),
    read_vllm,
    is_vllm,
    Axis(("request_rate", "max_concurrency"), {"request_rate": "1/s"}, rates=("request_rate",)),
)
FORMATS = (
    Format(
        "inference-perf",
        (b'"load_summary"',),
        read_stage,
        is_stage,
        Axis(LOADS, {"requested_rate": "1/s"}, rates=("requested_rate",)),
    ),
    Format(
        "sglang",
        (b'"dataset_name"', b'"output_throughput"'),
        read_sglang,
        is_sglang,
        Axis(
            ("request_rate", "max_concurrency", "random_input_len", "random_output_len"),
            {"request_rate": "1/s"},
            rates=("request_rate",),
        ),
    ),
    Format(
        "aiperf",
        (b'"request_throughput"',),
        read_aiperf,
        is_aiperf,
        Axis(LOAD_OF_AIPERF, {"request_rate": "1/s"}, rates=("request_rate",)),
    ),
    Format(
        "aiperf-csv",
        (b"Metric,avg,min,max,",),
        read_aiperf_csv,
        lambda file: file.head.lstrip().startswith(b"Metric,"),
        Axis(("concurrency",)),
    ),
    Format(
        "vllm-list",
        (b'"concurrency"', b'"metrics"'),
        read_vllm_list,
        each("concurrency", "metrics"),
        Axis(("concurrency",), by_file=True),
    ),
    Format("trtllm-bench", (OVERVIEW.encode(), b"Token Throughput"), read_trtllm, axis=TRTLLM),
    Format(
        "inferencex", (b"Concurrency", b"ISL"), read_inferencex, is_inferencex, Axis(("Concurrency",), by_file=True)
    ),
    Format(
        "llama-bench",
        (),
        read_llama_bench,
        is_llama_bench,
        Axis(LENGTHS, dict.fromkeys(LENGTHS[:3], "tokens"), by_file=True),
    ),
    Format(
        "llama-benchy",
        (b"llama-benchy",),
        read_llama_benchy,
        lambda file: re.search(rb"\|\s*(pp|tg)\d+ \(c\d+\)\s*\|", file.head) is not None,
        Axis(("concurrency",), by_file=True),
    ),
)
