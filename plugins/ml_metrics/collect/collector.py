"""Collect one run: ask every source, make metrics of the points, and add the times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.collect import json_lines, literals, memory, perfzero, profile, streams, tensorboard
from ml_metrics.collect.aggregate import aggregate, by_tag, is_wanted, unused_patterns
from ml_metrics.collect.collected import Collected
from ml_metrics.collect.source import COMPUTED, Found, MemoryUsed, Request, Source
from ml_metrics.collect.timing import start_of, time_to_accuracy, total_wall_time
from ml_metrics.collect.untrusted_values import printable
from ml_metrics.config.collection import TIME_TO_ACCURACY, TOTAL_WALL_TIME
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.config.sources import Sources
    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

SOURCES: dict[str, Source] = {
    "tensorboard": tensorboard.read,
    "streams": streams.read,
    "json_lines": json_lines.read,
    "perfzero": perfzero.read,
    "profile": profile.read,
    "memory": memory.read,
    "literals": literals.read,
}
"""Every source, by its key in the config. Where two yield the same tag or metric, the earlier counts."""


def collect_run(  # noqa: PLR0913  (one run, and what may be asked about it)
    config: MetricCollectionConfig,
    folder: RunFolder,
    workload: Workload | None,
    *,
    verify: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    memory_used: MemoryUsed | None = None,
) -> Collected:
    """Everything that a run wrote, as metrics.

    `workload` says when it began and ended, and may be unknown. `verify` checks also the records that are passed
    over. `progress` is told of bytes as they are read. `memory_used` asks what a workload used where the cluster did
    not measure it itself.
    """
    unreadable: list[str] = []
    request = Request(config, folder, folder.files(unreadable.append), workload, verify, progress, memory_used)
    found = {source: _ask(source, request) for source in SOURCES if _is_on(source, config.sources)}
    series = [one for each in found.values() for one in each.series]
    tagged = by_tag({source: each.series for source, each in found.items()}, config)
    start = start_of(series, workload)
    reached = time_to_accuracy(config.time_to_accuracy, tagged, start) if config.time_to_accuracy else None
    metrics, doubled = _once(
        {
            "the tags": aggregate(tagged, config),
            **{source: list(_wanted(each.metrics, config)) for source, each in found.items()},
            "time_to_accuracy": [reached] if isinstance(reached, Metric) else [],
        }
    )
    whole = total_wall_time(start, workload)
    if isinstance(whole, Metric):  # a benchmark that measures itself knows better
        metrics.setdefault(TOTAL_WALL_TIME, whole)
    warnings = [
        *unreadable,
        *(warning for each in found.values() for warning in each.warnings),
        *tagged.warnings,
        *doubled,
        *([whole] if isinstance(whole, str) else []),
        *unused_patterns(tagged, config),
    ]
    if start is None and isinstance(reached, Metric):
        warnings.append(f"{reached.name} is counted from the first point: nothing says when the run began")
    if not series and not any(each.metrics for each in found.values()):
        warnings.append(f"{folder.path}: holds no metrics: none of its {len(request.files)} files has any")
    return Collected(
        tuple(metrics.values()),
        tuple(warnings),
        sum(each.files for each in found.values()),
        {key: value for each in found.values() for key, value in each.metadata.items()},
        {
            **{name: why for each in found.values() for name, why in each.missing.items()},
            **({TIME_TO_ACCURACY: reached} if isinstance(reached, str) else {}),
        },
    )


def _is_on(source: str, switches: Sources) -> bool:
    switch = getattr(switches, source, True)
    return bool(getattr(switch, "enabled", switch))


def _ask(source: str, request: Request) -> Found:
    try:
        return SOURCES[source](request)
    except Exception as error:  # noqa: BLE001  (whatever a file makes of one source, the others' numbers stay)
        return Found(warnings=(f"{source}: could not be read: {type(error).__name__}: {error}",))


def _wanted(metrics: Iterable[Metric], config: MetricCollectionConfig) -> Iterator[Metric]:
    """Metrics whose tag is not ignored, under names that can be printed. What was computed needs not be included."""
    for metric in metrics:
        tag = printable(metric.tag)
        if is_wanted(tag, config, included=metric.strategy == COMPUTED):
            name = printable(metric.name)
            yield metric if name == metric.name else replace(metric, name=name, tag=tag)


def _once(by_source: Mapping[str, Iterable[Metric]]) -> tuple[dict[str, Metric], list[str]]:
    """The first metric of each name, and a warning for each of the others."""
    kept: dict[str, Metric] = {}
    giver: dict[str, str] = {}
    doubled = []
    for source, metrics in by_source.items():
        for metric in metrics:
            if kept.setdefault(metric.name, metric) is metric:
                giver[metric.name] = source
            else:
                doubled.append(
                    f"metric {metric.name!r} is given by {giver[metric.name]} and by {source}: "
                    f"{kept[metric.name].value:.6g} counts, {metric.value:.6g} does not"
                )
    return kept, doubled
