"""Collecting one run: read every source, aggregate the points into metrics, and add the times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.collect import (
    csv_files,
    device_files,
    json_lines,
    logs,
    perfzero,
    profile,
    streams,
    tensorboard,
    workload_metrics,
)
from ml_metrics.collect.aggregate import aggregate, by_tag, unused_patterns
from ml_metrics.collect.collected import Collected
from ml_metrics.collect.counts import notes_on
from ml_metrics.collect.curves import curves_of
from ml_metrics.collect.curves import metrics_of as curve_metrics
from ml_metrics.collect.environment import Environment
from ml_metrics.collect.expressions import Names, compute
from ml_metrics.collect.facts import described, is_wanted
from ml_metrics.collect.formats import source as formats
from ml_metrics.collect.kept_first import KeptFirst
from ml_metrics.collect.source import COMPUTED, Found, MemoryUsed, Request, Source
from ml_metrics.collect.step_times import step_time_metrics
from ml_metrics.collect.timing import times_of
from ml_metrics.collect.untrusted_values import quoted
from ml_metrics.config.metric_facts import known_about
from ml_metrics.config.patterns import matches_file
from ml_metrics.limits import Allowance, Limits, few, short_texts
from ml_metrics.values import MAX_TAG_BYTES, by_storable_name, storable_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ml_metrics.config.collection import MetricCollectionConfig, Sources
    from ml_metrics.model import Metric, Workload
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.storage import File

SOURCES: dict[str, Source] = {
    "tensorboard": tensorboard.read,
    "streams": streams.read,
    "json_lines": json_lines.read,
    "csv": csv_files.read,
    "perfzero": perfzero.read,
    "devices": device_files.read,
    "formats": formats.read,
    "logs": logs.read,
    "profile": profile.read,
    "memory": workload_metrics.read_memory,
    "literals": workload_metrics.read_literals,
}
"""All sources, by key in the config. If two have the same tag or metric, the earlier source counts."""
MAX_TEXT = 1 << 16
"""The characters of one text that describes a run."""
MAX_ERROR = 300
"""The characters of an error that are reported."""


def collect_run(  # noqa: PLR0913  (independent options)
    config: MetricCollectionConfig,
    folder: RunFolder,
    workload: Workload | None,
    *,
    verify: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    memory_used: MemoryUsed | None = None,
    curve_of: Callable[[str], bool] = lambda _: False,
    environment: Environment | None = None,
    limits: Limits | None = None,
    judged: Callable[[str], bool] = lambda _: False,
) -> Collected:
    """Return the metrics of everything that a run wrote.

    Args:
        config: What to collect, and how to aggregate it.
        folder: The run folder.
        workload: When the workload started and ended; None if unknown.
        verify: Also verify the checksums of records that are skipped.
        progress: Called with the number of bytes after each read.
        memory_used: Queries the memory that a workload used, if the cluster did not measure it.
        curve_of: Whether the curve of a tag is collected.
        environment: What the run ran on and with, for expressions.
        limits: How much is read and kept. By default the limits that a setting has by default.
        judged: Whether a metric is kept before others when a limit is reached: it is judged or required.
    """
    unreadable: list[str] = []
    kept_first = KeptFirst(config, judged)
    allowance = Allowance(limits or Limits(), kept_first.tag, progress)
    files = folder.files(unreadable.append)
    by_format = formats.sort(files, config.sources, allowance)
    claimed = by_format.names
    others = [file for file in files if file.name not in claimed]
    request = Request(config, folder, others, workload, verify, allowance, memory_used, by_format)
    found = {source: _read(source, request) for source in SOURCES if _is_on(source, config.sources)}
    series = [one for each in found.values() for one in each.series]
    tagged = by_tag({source: each.series for source, each in found.items()}, config)
    times = times_of(series, tagged, config, workload)
    aggregated = aggregate(tagged, config, allowance)
    curves, left_out = curves_of(tagged, config, curve_of, lambda tag: known_about(tag, config.facts).better)
    metrics, duplicates = _without_duplicates(
        {
            "the tags": aggregated.metrics,
            "the curves": list(curve_metrics(curves, tagged)),
            **{source: list(_wanted(each.metrics, config)) for source, each in found.items()},
            "time_to_accuracy": times.to_accuracy,
        }
    )
    written_steps = found["tensorboard"].series if "tensorboard" in found else ()
    for one in (*times.wall, *step_time_metrics(written_steps, config)):
        metrics.setdefault(one.name, one)  # what the workload measured itself takes precedence
    missing = {
        **{name: reason for each in found.values() for name, reason in each.missing.items()},
        **aggregated.missing,
        **times.missing,
    }
    names = Names(dict(tagged.series), metrics, missing, environment or Environment(), workload)
    compute(names, config)
    left = kept_first.of(metrics, allowance)
    metadata = {key: value for each in found.values() for key, value in each.metadata.items()}
    named, merged = by_storable_name(metadata.items())
    texts = short_texts(named, MAX_TEXT, allowance)
    warnings = [
        *unreadable,
        *allowance.warnings(),
        *(warning for each in found.values() for warning in each.warnings),
        *tagged.warnings,
        *aggregated.warnings,
        *left_out,
        *duplicates,
        *names.warnings,
        *times.warnings,
        *(f"several texts are named {quoted(name)}: the first one counts" for name in merged),
        *unused_patterns(tagged, config),
        *unused_file_patterns(files, config.sources),
    ]
    if not series and not any(each.metrics for each in found.values()):
        warnings.append(f"{folder.path}: has no metrics in any of its {len(files)} files")
    return Collected(
        tuple(described(left.values(), config)),
        tuple(few(warnings)),
        sum(each.files for each in found.values()),
        texts,
        missing,
        tuple(few([*aggregated.notes, *names.notes, *notes_on(left.values())])),
        curves,
        {one.name: tagged.mixed[one.tag] for one in left.values() if one.tag in tagged.mixed},
    )


def unused_file_patterns(files: Sequence[File], sources: Sources) -> Iterator[str]:
    """Yield a warning for each pattern of the config that matches no file of the run; it is often misspelt."""
    given = [(f"{name}.files", getattr(sources, name)) for name in type(sources).model_fields if _is_on(name, sources)]
    patterns = [(name, one.files) for name, one in given if "files" in getattr(one, "model_fields_set", ())]
    stated = [
        (f"formats.stated.{name}", each) for name, each in sources.formats.stated.items() if sources.formats.enabled
    ]
    for name, each in (*patterns, *stated):
        for pattern in each:
            if not any(matches_file((pattern,), file.name) for file in files):
                yield f"sources.{name}: {pattern!r} matches no file of this run"


def _is_on(source: str, switches: Sources) -> bool:
    switch = getattr(switches, source, True)
    return bool(getattr(switch, "enabled", switch))


def _read(source: str, request: Request) -> Found:
    try:
        return SOURCES[source](request)
    except Exception as error:  # noqa: BLE001  (an error in one source must not affect the others)
        return Found(warnings=(f"{source}: could not be read: {type(error).__name__}: {str(error)[:MAX_ERROR]}",))


def _wanted(metrics: Iterable[Metric], config: MetricCollectionConfig) -> Iterator[Metric]:
    """Yield the metrics that the config selects, under storable names. Computed metrics are always included."""
    for metric in metrics:
        tag = storable_name(metric.tag, MAX_TAG_BYTES)
        if is_wanted(tag, config, included=metric.strategy == COMPUTED):
            name = storable_name(metric.name)
            yield metric if name == metric.name else replace(metric, name=name, tag=tag)


def _without_duplicates(by_source: Mapping[str, Iterable[Metric]]) -> tuple[dict[str, Metric], list[str]]:
    """Return the first metric of each name, and a warning for each of the others."""
    kept: dict[str, Metric] = {}
    source_of: dict[str, str] = {}
    duplicates = []
    for source, metrics in by_source.items():
        for metric in metrics:
            if kept.setdefault(metric.name, metric) is metric:
                source_of[metric.name] = source
            else:
                duplicates.append(
                    f"metric {quoted(metric.name)} is in two sources, {source_of[metric.name]} and {source}: "
                    f"{kept[metric.name].value:.6g} counts, {metric.value:.6g} does not"
                )
    return kept, duplicates
