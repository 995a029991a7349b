"""Collect one run: ask every source, make metrics of the points, and add the times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.collect import tensorboard
from ml_metrics.collect.aggregate import aggregate, by_tag, unused_patterns
from ml_metrics.collect.collected import Collected
from ml_metrics.collect.source import Found, Request, Source
from ml_metrics.collect.timing import TIME_TO_ACCURACY, start_of, time_to_accuracy, total_wall_time
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.spec.collection import MetricCollectionConfig

SOURCES: dict[str, Source] = {
    "tensorboard": tensorboard.read,
}
"""Every source, by the name that its warnings bear. Where two yield the same tag or metric, the earlier counts."""


def collect_run(
    config: MetricCollectionConfig,
    folder: RunFolder,
    workload: Workload | None,
    *,
    verify: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Collected:
    """Everything that a run wrote, as metrics.

    `workload` says when it began and ended, and may be unknown. `verify` checks also the records that are passed
    over. `progress` is told of bytes as they are read.
    """
    request = Request(config, folder, folder.files(), workload, verify, progress)
    found = {source: _ask(source, request) for source in SOURCES}
    series = [one for each in found.values() for one in each.series]
    tagged = by_tag([each.series for each in found.values()], config)
    start = start_of(series, workload)
    reached = time_to_accuracy(config.time_to_accuracy, tagged, start) if config.time_to_accuracy else None
    metrics, doubled = _once(
        [
            *aggregate(tagged, config),
            *(metric for each in found.values() for metric in each.metrics),
            *(metric for metric in (total_wall_time(start, workload), reached) if isinstance(metric, Metric)),
        ]
    )
    warnings = [
        *(warning for each in found.values() for warning in each.warnings),
        *tagged.warnings,
        *doubled,
        *unused_patterns(tagged, config),
    ]
    if start is None and isinstance(reached, Metric):
        warnings.append(f"{reached.name} is counted from the first point: nothing says when the run began")
    if not series and not any(each.metrics for each in found.values()):
        warnings.append(f"{folder.place}: holds no metrics: none of its {len(request.files)} files has any")
    return Collected(
        tuple(metrics),
        tuple(warnings),
        sum(each.files for each in found.values()),
        {key: value for each in found.values() for key, value in each.metadata.items()},
        {TIME_TO_ACCURACY: reached} if isinstance(reached, str) else {},
    )


def _ask(source: str, request: Request) -> Found:
    try:
        return SOURCES[source](request)
    except Exception as error:  # noqa: BLE001  (whatever a file makes of one source, the others' numbers stay)
        return Found(warnings=(f"{source}: could not be read: {type(error).__name__}: {error}",))


def _once(metrics: Iterable[Metric]) -> tuple[list[Metric], list[str]]:
    """The first metric of each name, and a warning for each of the others."""
    by_name: dict[str, Metric] = {}
    doubled = [metric for metric in metrics if by_name.setdefault(metric.name, metric) is not metric]
    return list(by_name.values()), [
        f"metric {metric.name!r} was found twice; {metric.value:.6g} does not count" for metric in doubled
    ]
