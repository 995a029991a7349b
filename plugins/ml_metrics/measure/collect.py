"""Collects the metrics of a run: reads its files, aggregates, computes, and keeps the most important within limits."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ml_metrics.config.collection import INDEX, MEMORY, MetricCollectionConfig, OfRun, known_about
from ml_metrics.config.formula import formula
from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import FailureLogged
from ml_metrics.core.limits import Allowance, Limits, few, short_texts
from ml_metrics.core.model import CURVE_SUFFIX, Metric
from ml_metrics.core.values import MAX_TAG_BYTES, by_storable_name, storable_name
from ml_metrics.measure.aggregation import aggregate, aggregation_of, by_tag, made_by_name, notes_on, unused_patterns
from ml_metrics.measure.collected import Collected, Environment, described, is_wanted
from ml_metrics.measure.curves import curves_of
from ml_metrics.measure.curves import metrics_of as curve_metrics
from ml_metrics.measure.expressions import Names, compute
from ml_metrics.measure.figures import figures_of
from ml_metrics.measure.points import STEPS
from ml_metrics.measure.readers import csv as csv_files
from ml_metrics.measure.readers import (
    devices,
    documents,
    json_lines,
    own_sweeps,
    perfzero,
    registry,
    streams,
    tensorboard,
    xprof,
)
from ml_metrics.measure.readers import log as logs
from ml_metrics.measure.source import COMPUTED, Found, MemoryUsed, Request, Source, together
from ml_metrics.measure.sweeps import known_sweep, sweep_metrics, within_limits
from ml_metrics.measure.text import quoted
from ml_metrics.measure.timing import step_time_metrics, times_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ml_metrics.config.collection import Sources
    from ml_metrics.core.faults import FaultJournal
    from ml_metrics.core.model import Sweep, Workload
    from ml_metrics.measure.faults import FaultFigures
    from ml_metrics.store.run_folder import RunFolder
    from ml_metrics.store.storage import File


REMEMBERED = 10_000
"""For how many tags the answer is remembered."""


class KeptFirst:
    """What a config needs: metrics that are judged or required, and tags that it names."""

    def __init__(self, config: MetricCollectionConfig, judged: Callable[[str], bool]) -> None:
        self._config = config
        self._judged = judged
        named = set(config.metric_to_aggregation_strategy)
        if config.time_to_accuracy:
            named.add(config.time_to_accuracy.accuracy_tag)
        for one in config.computed.values():
            named.update(reference.name for reference in formula(one.expression).references)
        self._named = frozenset(named)
        self.tag = lru_cache(REMEMBERED)(self._tag)

    def _tag(self, tag: str) -> bool:
        tag = storable_name(tag, MAX_TAG_BYTES)
        strategies = aggregation_of(tag, self._config).strategies
        names = (tag, f"{tag}{CURVE_SUFFIX}", *(f"{tag}_{strategy}" for strategy in strategies))
        return any(name in self._named or self._judged(name) for name in names)

    def of(self, metrics: Mapping[str, Metric], allowance: Allowance) -> dict[str, Metric]:
        def is_first(name: str) -> bool:
            return metrics[name].strategy == COMPUTED or name in self._config.computed or self._judged(name)

        kept = allowance.first_ones(tuple(metrics), "metrics", is_first)
        return {name: metrics[name] for name in kept}


VALUES: dict[OfRun, Callable[[Workload], float | None]] = {
    "duration": lambda workload: workload.duration_seconds,
    "attempts": lambda workload: float(workload.attempts),
    "queue_time": lambda workload: workload.queued_seconds,
}


def read_literals(request: Request) -> Found:
    """The literals that the config requires. One that is unknown is missing, with the reason."""
    workload, required = request.workload, request.config.sources.literals
    if workload is None:
        return Found(missing=dict.fromkeys(required, "there is no record of how the workload ended"))
    values = {name: VALUES[literal](workload) for name, literal in required.items()}
    return Found(
        metrics=list(_metrics({name: value for name, value in values.items() if value is not None}, workload)),
        missing={name: _why_unknown(required[name], workload) for name, value in values.items() if value is None},
    )


def _why_unknown(literal: OfRun, workload: Workload) -> str:
    first, then = workload.queued_at, workload.started_at
    if literal == "duration":
        first, then = workload.started_at, workload.ended_at
    if first is None or then is None:
        return "the workload has not run yet"
    what = "container ended" if literal == "duration" else "container started"
    return f"the {what} {(first - then).total_seconds():.6g} s too early: the clocks of the machines differ"


def read_memory(request: Request) -> Found:
    """The peak memory that the cluster or a monitoring service measured. Without a measurement there is none."""
    workload = request.workload
    if workload is None:
        return Found()
    used: Mapping[str, float] = {}
    if workload.peak_memory_bytes:
        used = {MEMORY[0]: workload.peak_memory_bytes}
    elif request.memory_used is not None:
        used = request.memory_used(workload)
    positive = {name: float(used[name]) for name in MEMORY if 0 < used.get(name, 0) < math.inf}
    return Found(metrics=list(_metrics(positive, workload)))


def _metrics(values: Mapping[str, float], workload: Workload) -> Iterator[Metric]:
    end = workload.ended_at.timestamp() if workload.ended_at else None
    for name, value in values.items():
        yield Metric(name, value, name, COMPUTED, wall_time=end)


SOURCES: dict[str, Source] = {
    "tensorboard": tensorboard.read,
    "streams": streams.read,
    "documents": documents.read,
    "json_lines": json_lines.read,
    "csv": csv_files.read,
    "perfzero": perfzero.read,
    "devices": devices.read,
    "formats": registry.read,
    "curves": own_sweeps.read,
    "logs": logs.read,
    "profile": xprof.read,
    "memory": read_memory,
    "literals": read_literals,
}
"""All sources, by key in the config. If two have the same tag or metric, the earlier source counts."""
MAX_TEXT = 1 << 16
"""The characters of one text that describes a run."""


def collect_run(
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
    named: Iterable[str] = (),
    faults: FaultJournal | None = None,
) -> Collected:
    """The metrics of everything that a run wrote.

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
        named: Names of metrics that are judged or required; one like `loss_p95` needs no strategy in the config.
        faults: The planned faults of the run, and what became of them.
    """
    unreadable: list[str] = []
    kept_first = KeptFirst(config, judged)
    allowance = Allowance(limits or Limits(), kept_first.tag, progress)
    files = folder.files(unreadable.append)
    by_format = registry.sort(files, config.sources, allowance)
    claimed = by_format.names
    own_curves = [pattern for one in config.sources.curves.values() for pattern in one.files]
    curve_files = [file for file in files if matches_file(own_curves, file.name)]
    read_elsewhere = claimed.union(file.name for file in curve_files)
    others = [file for file in files if file.name not in read_elsewhere]
    request = Request(config, folder, others, workload, verify, allowance, memory_used, by_format, curve_files)
    found = {source: _read(source, request) for source in SOURCES if _is_on(source, config.sources)}
    recoveries: tuple[FaultFigures, ...] = ()
    if faults is not None:
        from ml_metrics.measure.faults import measure_faults  # only the runs that have some import it

        series = [one for each in found.values() for one in each.series]
        recoveries, found["faults"] = measure_faults(faults, files, series, workload, config, limits)
    every = together(found.values())
    tagged = by_tag({source: each.series for source, each in found.items()}, config)
    times = times_of(every.series, tagged, config, workload)
    aggregated = aggregate(tagged, config, allowance)
    curves, left_out = curves_of(tagged, config, curve_of, lambda tag: known_about(tag, config.facts).better)
    sweeps, too_many = within_limits([known_sweep(one, config) for one in every.sweeps])
    figures, no_figures, notes = figures_of(sweeps, config)
    metrics, duplicates = _without_duplicates(
        {
            "the tags": aggregated.metrics,
            "the curves": [*curve_metrics(curves, tagged), *sweep_metrics(sweeps, judged), *figures],
            **{source: list(_wanted(each.metrics, config)) for source, each in found.items()},
            "time_to_accuracy": times.to_accuracy,
        }
    )
    written_steps = found["tensorboard"].series if "tensorboard" in found else ()
    unmade = [name for name in named if name not in metrics]
    for one in (*times.wall, *step_time_metrics(written_steps, config), *made_by_name(unmade, tagged, config)):
        metrics.setdefault(one.name, one)  # what is there already counts before these
    missing = {**every.missing, **aggregated.missing, **times.missing, **no_figures}
    names = Names(dict(tagged.series), metrics, missing, environment or Environment(), workload)
    compute(names, config)
    left = kept_first.of(metrics, allowance)
    named, merged = by_storable_name(every.metadata.items())
    texts = short_texts(named, MAX_TEXT, allowance)
    warnings = [
        *unreadable,
        *allowance.warnings(),
        *every.warnings,
        *tagged.warnings,
        *aggregated.warnings,
        *left_out,
        *too_many,
        *duplicates,
        *names.warnings,
        *times.warnings,
        *(f"several texts are named {quoted(name)}: the first one counts" for name in merged),
        *unused_patterns(tagged, config),
        *unused_file_patterns(files, config.sources),
    ]
    if not every.series and not sweeps and not every.metrics:
        how = f"`ml-metrics collect {folder.path} --explain` shows what would read them"
        warnings.append(f"{folder.path}: has no metrics in any of its {len(files)} files; {how}")
    return Collected(
        tuple(described(left.values(), config)),
        tuple(few(warnings)),
        every.files,
        texts,
        missing,
        tuple(few([*aggregated.notes, *names.notes, *notes, *notes_on(left.values())])),
        curves,
        {one.name: tagged.mixed[one.tag] for one in left.values() if one.tag in tagged.mixed},
        sweeps,
        tuple(asdict(one) for one in recoveries),
    )


def unused_file_patterns(files: Sequence[File], sources: Sources) -> Iterator[str]:
    """Yield a warning for each pattern of the config that matches no file of the run; it is often misspelt."""
    given = [(f"{name}.files", getattr(sources, name)) for name in type(sources).model_fields if _is_on(name, sources)]
    patterns = [(name, one.files) for name, one in given if "files" in getattr(one, "model_fields_set", ())]
    patterns += [("documents", one.files) for one in sources.documents]
    stated = [
        (f"formats.stated.{name}", each) for name, each in sources.formats.stated.items() if sources.formats.enabled
    ]
    curves = [(f"curves.{name}", one.files) for name, one in sources.curves.items()]
    for name, each in (*patterns, *stated, *curves):
        for pattern in each:
            if not any(matches_file((pattern,), file.name) for file in files):
                yield f"sources.{name}: {pattern!r} matches no file of this run"


def _is_on(source: str, switches: Sources) -> bool:
    switch = getattr(switches, source, True)
    return bool(getattr(switch, "enabled", switch))


def _read(source: str, request: Request) -> Found:
    warnings: list[str] = []
    with FailureLogged(warnings.append, f"{source}: could not be read"):  # the others are still read
        found = SOURCES[source](request)
        of_curves = request.sorted.of_curves if request.sorted else ()
        return replace(found, warnings=[one for one in found.warnings if not one.startswith(of_curves)])
    return Found(warnings=tuple(warnings))


def _wanted(metrics: Iterable[Metric], config: MetricCollectionConfig) -> Iterator[Metric]:
    """Yield the metrics that the config selects, under storable names. Computed metrics are always included."""
    for metric in metrics:
        tag = storable_name(metric.tag, MAX_TAG_BYTES)
        if is_wanted(tag, config, included=metric.strategy == COMPUTED):
            name = storable_name(metric.name)
            yield metric if name == metric.name else replace(metric, name=name, tag=tag)


def _without_duplicates(by_source: Mapping[str, Iterable[Metric]]) -> tuple[dict[str, Metric], list[str]]:
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


@dataclass(frozen=True, slots=True)
class Explained:
    """What one file alone is read as, or else the configuration that would read it."""

    file: str
    source: str = ""
    """The format or source that reads it, or the known log profile; empty if it is of no known format."""
    metrics: tuple[Metric, ...] = ()
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()
    proposed: Mapping[str, Any] = field(default_factory=dict)
    """`sources` that read it, if none of the config does and there are numbers in it."""

    def lines(self) -> Iterator[str]:
        """Yield the configuration that reads it and judges what is in it."""
        from ml_metrics.measure import proposals

        if self.proposed:
            yield from proposals.as_yaml({"metric_collection_config": {"sources": self.proposed}})
        curves = {"curves": proposals.conditions(self.sweeps)} if self.sweeps else {}
        metrics = {"metric_success_conditions": self.conditions()} if self.metrics else {}
        yield from proposals.as_yaml({"regression_test_config": {**metrics, **curves}})

    def conditions(self) -> dict[str, Any]:
        """For some of its metrics."""
        from ml_metrics.measure import proposals

        return proposals.conditions(self.metrics)

    def steps_by_place(self) -> Iterator[str]:
        """Yield fields that are proposed as steps only because they grow: a load or a size does, too."""
        steps = (entry.get("step") for entry in self.proposed.get("documents", ()))
        yield from (step for step in steps if step and step not in {*STEPS, INDEX})


OF_FILES = frozenset(SOURCES) - {"memory", "literals"}


def explain_file(file: File, folder: RunFolder, config: MetricCollectionConfig, limits: Limits) -> Explained:
    """Read a file alone. If it is not read, the metrics are those that the proposed configuration gives."""
    explained = _read_alone(file, folder, config, limits)
    if explained.source:
        return explained
    from ml_metrics.measure import proposals

    proposed, left_out = proposals.propose(file, Allowance(limits))
    if not proposed:
        return replace(explained, warnings=(*explained.warnings, *left_out))
    try:
        own = MetricCollectionConfig.model_validate({"sources": proposed})
    except ValidationError:  # a name in the file cannot stand in a test file
        return explained
    tried = _read_alone(file, folder, own, limits)
    if not tried.source:
        return explained
    profile = proposed.get("logs", {}).get("profile")
    warnings = (*explained.warnings, *left_out)
    return replace(tried, warnings=warnings, proposed=proposed, source=f"logs: {profile}" if profile else "")


def _read_alone(file: File, folder: RunFolder, config: MetricCollectionConfig, limits: Limits) -> Explained:
    allowance = Allowance(limits)
    by_format = registry.sort([file], config.sources, allowance)
    request = Request(config, folder, [] if by_format.names else [file], None, allowance=allowance, sorted=by_format)
    found = {name: _read(name, request) for name in SOURCES if name in OF_FILES and _is_on(name, config.sources)}
    every = together(found.values())
    metrics = aggregate(by_tag({name: one.series for name, one in found.items()}, config), config, allowance).metrics
    metrics += _wanted(every.metrics, config)
    names = [
        next(iter(by_format.by_format)) if name == "formats" else name
        for name, one in found.items()
        if one.series or one.metrics or one.sweeps
    ]
    known, warnings = tuple(described(metrics, config)), (*allowance.warnings(), *every.warnings)
    return Explained(file.name, " and ".join(names), known, warnings, every.metadata, tuple(every.sweeps))
