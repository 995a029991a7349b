"""Programs whose files are read with few lines each: most by paths, as a test file could."""

from __future__ import annotations

import math
import re
from collections import deque
from typing import TYPE_CHECKING, Any

from ml_metrics.config.collection import INDEX, Document, JsonLines
from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.lines import parsed_document
from ml_metrics.measure.points import PointFields, seconds_of, step_of
from ml_metrics.measure.readers.documents import add_all, documents_in, parse_xml
from ml_metrics.measure.readers.format import (
    Format,
    each,
    each_object,
    has,
    keys_of,
    lines_of,
    numbers_in,
    objects_in,
    value_of,
)
from ml_metrics.measure.readers.hardware_sweeps import FIO, read_fio
from ml_metrics.measure.readers.json_lines import Lines
from ml_metrics.measure.readings import LONGEST_UNIT, stated_unit
from ml_metrics.measure.text import measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


def by_paths(
    *entries: dict[str, Any], documents: Callable[[Readings], Iterable[Any]] = documents_in
) -> Callable[[Readings], None]:
    """Return a reader by entries of `sources.documents`, without their files."""
    options = [Document.model_validate({"files": ["*"], **entry}) for entry in entries]

    def read(found: Readings) -> None:
        content = list(documents(found))
        for one in options:
            deque(add_all(found, one, content), maxlen=0)

    return read


def metric(path: str, unit: str | None = None, better: str | None = None) -> dict[str, str | None]:
    return {"path": path, "unit": unit, "better": better}


def _is_result(file: Beginning) -> bool:
    values = file.document
    runtimes = {f"{part}_runtime" for part in ("train", "eval", "predict", "test")}
    return isinstance(values, dict) and not runtimes.isdisjoint(values) and "log_history" not in values


BMF = re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*\{\s*"[^"]*"\s*:\s*\{\s*"(lower_|upper_)?value"')
"""Only a document that begins so is read to its end: many documents hold a `value` somewhere."""


def _is_bmf(file: Beginning) -> bool:
    """Whether the document is nothing but benchmarks of measures of values."""
    content = file.document if BMF.match(file.head) else None
    if not isinstance(content, dict) or not content:
        return False
    return all(isinstance(measures, dict) and measures for measures in content.values()) and all(
        isinstance(one, dict) and "value" in one and one.keys() <= {"value", "lower_value", "upper_value"}
        for measures in content.values()
        for one in measures.values()
    )


def _are_entries(file: Beginning) -> bool:
    """Whether each is one of github-action-benchmark's `customBiggerIsBetter` and `customSmallerIsBetter`."""
    content, needed = file.document, {"name", "unit", "value"}
    return (isinstance(content, list) and bool(content)) and all(
        isinstance(one, dict) and needed <= one.keys() <= needed | {"range", "extra"} for one in content
    )


def _is_evals(file: Beginning) -> bool:
    """Whether it has, by data set and metric, a number for each round."""
    content = file.document
    if not isinstance(content, dict) or not all(isinstance(one, dict) and one for one in content.values()):
        return False
    curves = [numbers_in(curve) for one in content.values() for curve in one.values()]
    return bool(curves) and all(curves) and len({len(curve) for curve in curves if curve}) == 1


def _summary(found: Readings) -> list[dict[str, Any]]:
    return [{name: value for name, value in found.document().items() if not name.startswith("_")}]


def _junit(found: Readings) -> list[Any]:
    content = parse_xml(found.content())
    return [{"testsuites": {"testsuite": [content["testsuite"]]}}] if "testsuite" in content else [content]


def _newest(found: Readings) -> list[Any]:
    """data.js with the last entry of each group: there is one for each commit."""
    text = found.content(found.allowance.limits.json_bytes).partition(b"=")[2].strip().removesuffix(b";")
    entries = parsed_document(text, found.allowance.limits.json_nesting)["entries"]
    return [{group: each[-1:] for group, each in entries.items()}]


def _has_points(file: Beginning) -> bool:
    """Whether each of several lines is a flat object with a step and a number."""
    fields = PointFields()
    plans = [fields.plan(tuple(one)) for one in file.lines]
    return len(plans) > 1 and all(
        plan.step is not None
        and step_of(one[plan.step]) is not None
        and not plan.record
        and any(type(value) is float for value in one.values())
        for one, plan in zip(file.lines, plans, strict=True)
    )


def _read_points(found: Readings) -> None:
    Lines(found, found, JsonLines(), PointFields()).read(found)


def _is_dvclive(file: Beginning) -> bool:
    """Whether its header is the step, perhaps behind a time, and the name of the file."""
    header = file.head.split(b"\n", 1)[0].strip().split(b"\t")
    name = file.name.rpartition("/")[2].removesuffix(".tsv")
    return DVCLIVE in f"/{file.name}" and b"step" in header[:2] and header[-1].decode(errors="replace") == name


def _read_dvclive(found: Readings) -> None:
    """The folders below `metrics` are part of the name: train/loss and val/loss are two series."""
    before, _, name = f"/{found.lines.file.name}".rpartition(DVCLIVE)
    found.in_folder(before.strip("/") or ".")
    name = name.removesuffix(".tsv")
    for row in documents_in(found, "csv"):
        step, value = (measured(row.get(key, ""))[0] for key in ("step", name.rpartition("/")[2]))
        whole = step_of(step)
        if whole is None or value is None:
            found.lines.reject("no step or no number", row)
            continue
        time = seconds_of(measured(row.get("timestamp", ""))[0], certain=True)
        found.point(name, whole, math.nan if time is None else time, value)


DVCLIVE = "/plots/metrics/"


def _read_sysbench(found: Readings) -> None:
    """Read the indented lines `name: value` below each heading, and rates in brackets behind a value."""
    section, unit = "", ""
    for line in found.text_lines():
        name, colon, text = line.partition(":")
        if line[:1].strip() and colon:
            heading = SYSBENCH_HEADING.match(name)
            section, unit = (heading["name"].lower(), heading["unit"] or "") if heading else ("", "")
        elif colon and section:
            tag = re.sub(r"[^a-z0-9/]+", "_", f"{section}/{name.strip().lower()}").strip("_")
            first, _, rate = text.partition("(")
            for end, content in (("", first), ("_per_second", rate.partition(" per sec")[0])):
                value, own = measured(content.strip())
                if value is not None:
                    found.add(f"{tag}{end}", [value], Stated(own or ("" if end else unit), repeats=True))


SYSBENCH_HEADING = re.compile(r"(?P<name>[A-Za-z][A-Za-z ]*?) *(?:\((?P<unit>\w+)\))?$")
PERFHERDER = b"PERFHERDER_DATA:"


def _read_perfherder(found: Readings) -> None:
    found.lines.check = bytes  # the last line of a log needs no end
    for block in found.lines.blocks():
        texts = b"\n".join(line.partition(PERFHERDER)[2].strip() for line in block.split(b"\n"))
        for content in found.lines.objects(texts, " behind the token"):
            for suite in objects_in(content.get("suites")):
                name = " ".join(map(str, [suite.get("name"), *(suite.get("extraOptions") or ())]))
                _add_perfherder(found, name, suite, suite)
                for one in objects_in(suite.get("subtests")):
                    _add_perfherder(found, f"{name}/{one.get('name')}", one, suite)


def _add_perfherder(found: Readings, name: str, one: dict[str, Any], suite: dict[str, Any]) -> None:
    value = value_of(one["value"]) if "value" in one else None
    if value is None:
        return
    better = LOWER if one.get("lowerIsBetter", suite.get("lowerIsBetter", True)) else HIGHER
    found.add(name, [value], Stated(stated_unit(one.get("unit") or suite.get("unit")), better, repeats=True))


def _read_jmh(found: Readings) -> None:
    results = list(objects_in(found.document()))
    modes = {one.get("mode") for one in results}
    for one in results:
        better = HIGHER if one.get("mode") == "thrpt" else LOWER
        others = one.get("secondaryMetrics") or {}
        for name, measures in {"": one["primaryMetric"], **others}.items():
            values = [value for part in measures.get("rawData") or () for value in numbers_in(part) or ()]
            known = Stated(str(measures.get("scoreUnit", ""))[:LONGEST_UNIT], better if not name else "", repeats=True)
            parts = (str(one["benchmark"]), str(one.get("mode")) if len(modes) > 1 else "", name)
            score = value_of(measures.get("score"))
            settings = {**(one.get("params") or {}), "threads": one.get("threads")}
            found.add(
                "/".join(filter(None, parts)), values or ([] if score is None else [score]), known, dimensions=settings
            )


def _read_otlp(found: Readings) -> None:
    counted: dict[str, int] = {}
    for export in each_object(found):
        for one in _otlp_metrics(export):
            unit = str(one.get("unit", "")).strip("{}")[:LONGEST_UNIT].removeprefix("1")
            for kind in ("gauge", "sum", "histogram", "exponentialHistogram", "summary"):
                for point in objects_in(keys_of(one, kind).get("dataPoints")):
                    values = {
                        "": point.get("asDouble", point.get("asInt")),
                        "/sum": point.get("sum"),
                        "/count": point.get("count"),
                    }
                    time = seconds_of(int(point.get("timeUnixNano") or 0) / 1e9 or None, certain=True)
                    settings = {
                        str(each.get("key")): next(iter((each.get("value") or {}).values()), None)
                        for each in objects_in(point.get("attributes"))
                    }
                    for end, content in values.items():
                        value = measured(content)[0] if isinstance(content, str) else value_of(content)
                        if content is None or value is None:
                            continue
                        name = f"{one['name']}{end}"
                        series = f"{name} {sorted(settings.items())}"
                        step = counted[series] = counted.get(series, -1) + 1
                        stated = Stated("" if end == "/count" else unit)
                        found.add(name, [value], stated, dimensions=settings, step=step, time=time or 0.0)


def _otlp_metrics(export: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in objects_in(export.get("resourceMetrics")):
        for scope in objects_in(resource.get("scopeMetrics")):
            yield from objects_in(scope.get("metrics"))


_FIO = {
    f"{{jobname}}/{way}/{name}": metric(f"$.jobs[*].{way}.{path}", unit, better)
    for way in ("read", "write")
    for name, path, unit, better in (
        ("iops", "iops", "1/s", HIGHER),
        ("bandwidth", "bw_bytes", "B/s", HIGHER),
        ("latency_mean", "lat_ns.mean", "ns", LOWER),
        ("completion_latency_mean", "clat_ns.mean", "ns", LOWER),
        ("completion_latency_p99", 'clat_ns.percentile["99.000000"]', "ns", LOWER),
    )
}


def _read_fio(found: Readings) -> None:
    by_paths({"metrics": _FIO})(found)
    read_fio(found)


_IPERF = {
    f"{name}/{field}": metric(f"$.end.{part}.{key}", unit, better)
    for part, name in (("sum_sent", "sent"), ("sum_received", "received"), ("sum", "udp"))
    for key, field, unit, better in (
        ("bits_per_second", "bits_per_second", "bit/s", HIGHER),
        ("retransmits", "retransmits", "", LOWER),
        ("jitter_ms", "jitter", "ms", LOWER),
        ("lost_percent", "lost_packets", "%", LOWER),
    )
}

FORMATS = (
    Format("json-lines", (b"{",), _read_points, _has_points),
    Format("dvclive", (b"step\t",), _read_dvclive, _is_dvclive),
    Format(
        "hf-trainer-state",
        (b'"log_history"',),
        by_paths({"metrics": {"{2}": "$.log_history[*].*"}, "step": "step"}),
        has("log_history", "global_step"),
    ),
    Format("hf-results", (b"_runtime",), by_paths({}), _is_result),
    Format("wandb-summary", (b'"_wandb"', b'"_runtime"'), by_paths({}, documents=_summary), has("_wandb", "_runtime")),
    Format("bencher", (b'"value"',), by_paths({"metrics": {"{1}/{2}": "$.*.*.value"}}), _is_bmf),
    Format(
        "github-action-benchmark",
        (b'"name"', b'"unit"', b'"value"'),
        by_paths({"metrics": {"{name}": "$[*].value"}, "unit": "{unit}"}),
        _are_entries,
    ),
    Format("fio", (b'"fio version"',), _read_fio, has("fio version", "jobs"), FIO),
    Format(
        "iperf3",
        (b'"intervals"', b'"end"'),
        by_paths({"metrics": _IPERF}),
        has("start", "intervals", "end"),
    ),
    Format("jmh", (b'"primaryMetric"',), _read_jmh, each("primaryMetric")),
    Format("otlp", (b'"resourceMetrics"',), _read_otlp, lines_of("resourceMetrics")),
    Format("evals-result", (b"[",), by_paths({"metrics": {"{1}/{2}": "$.*.*"}, "step": INDEX}), _is_evals),
    Format(
        "junit",
        (b"<testsuite", b"<testcase"),
        by_paths(
            {"metrics": {"{classname}.{name}/time": metric("$..testcase[*].time", "s", LOWER)}},
            {"metrics": {f"{{name}}/{count}": f"$..testsuite[*].{count}" for count in ("tests", "skipped")}},
            {"metrics": {f"{{name}}/{count}": f"$..testsuite[*].{count}" for count in ("failures", "errors")}}
            | {"better": LOWER},
            documents=_junit,
        ),
        lambda file: file.head.lstrip().startswith(b"<"),
    ),
    Format("sysbench", (b"sysbench ", b"General statistics:"), _read_sysbench),
    Format(
        "benchmark-data",
        (b"window.BENCHMARK_DATA",),
        by_paths({"metrics": {"{name}": "$.*[*].benches[*].value"}, "unit": "{unit}"}, documents=_newest),
        lambda file: file.head.lstrip().startswith(b"window.BENCHMARK_DATA"),
    ),
    Format("perfherder", (PERFHERDER,), _read_perfherder),
)
