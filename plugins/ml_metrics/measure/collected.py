"""What was collected from one run, and the document that holds it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.config.accelerators import Kind
from ml_metrics.config.collection import Strategy, known_about
from ml_metrics.config.patterns import matches_any
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Metric, Sweep, TagCurve
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import storable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ml_metrics.config.accelerators import Accelerator
    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Workload


STEP_TIMES = "step_times"
"""The strategy of step times that follow from the wall times of points. Those of the goodput recorder count before."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The metrics of one run."""

    metrics: tuple[Metric, ...]
    warnings: tuple[str, ...] = ()
    files: int = 0
    """The number of files that were read."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Text that describes the run, for example TensorBoard's text summaries."""
    missing: dict[str, str] = field(default_factory=dict)
    """By name: why the run lacks a metric that the config requires."""
    notes: tuple[str, ...] = ()
    """What was done with the points that a reader should know, such as the warm-up that was left out."""
    curves: dict[str, TagCurve] = field(default_factory=dict)
    """The curves that are judged, by tag."""
    mixed: dict[str, str] = field(default_factory=dict)
    """By name of a metric that aggregates several series: which ones, for the reason of its verdict."""
    sweeps: tuple[Sweep, ...] = ()
    """Curves over a load, a size or another setting."""
    faults: tuple[dict[str, Any], ...] = ()
    """What each planned fault of the run cost: the fields of `FaultFigures`."""

    def document(self) -> dict[str, Any]:
        document = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        curves = {tag: curve.document() for tag, curve in self.curves.items()}
        sweeps = [sweep.document() for sweep in self.sweeps]
        present = {"curves": curves, "mixed": self.mixed, "sweeps": sweeps, "faults": list(self.faults)}
        return {name: value for name, value in (document | present).items() if value or name not in present}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """A value of null becomes NaN."""
        try:
            metrics = tuple(
                Metric(**{**metric, "value": math.nan if metric["value"] is None else metric["value"]})
                for metric in document["metrics"]
            )
            return cls(
                metrics,
                tuple(document.get("warnings", ())),
                document.get("files", 0),
                document.get("metadata", {}),
                document.get("missing", {}),
                tuple(document.get("notes", ())),
                {tag: TagCurve.from_document(tag, curve) for tag, curve in document.get("curves", {}).items()},
                document.get("mixed", {}),
                tuple(map(Sweep.from_document, document.get("sweeps", ()))),
                tuple(map(dict, document.get("faults", ()))),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UnreadableInputError(
                f"this is not a document of collected metrics ({error}). Collect the run again."
            ) from error


@dataclass(frozen=True, slots=True)
class Environment:
    """The accelerator and the parameters of a run."""

    accelerator: Accelerator | None = None
    """None if the run's test is unknown."""
    hosts: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, test: TestDefinition, params: Mapping[str, Any]) -> Self:
        """A parameter that was not given has its default."""
        defaults = {name: param.default for name, param in test.params.items()}
        return cls(test.accelerator, test.pods, {**defaults, **params})

    def fact(self, name: str, workload: Workload | None) -> float | str:
        """The fact, or why it is unknown."""
        if name == "duration":
            seconds = workload.duration_seconds if workload else None
            return "there is no record of how long the workload ran" if seconds is None else seconds
        if self.accelerator is None:
            return f"{name} is unknown: nothing states which accelerator the run used"
        return self._of_device(name, self.accelerator)

    def _of_device(self, name: str, device: Accelerator) -> float | str:
        from ml_metrics.measure.efficiency.mfu import peak_of

        known: dict[str, float | None] = {
            "hosts": self.hosts,
            # a host without accelerators counts as one chip
            "chips": self.hosts if device.kind is Kind.CPU else device.count * (self.hosts // device.hosts),
            "slices": self.hosts // device.hosts if device.kind is Kind.TPU else None,
            "peak_flops": peak.flops if (peak := peak_of(device.chip, "bf16")) else None,
        }
        value = known[name]
        if value is not None:
            return float(value)
        if name == "slices":
            return f"{device.name} is no TPU: it has no slices"
        return f"{name} is unknown for {device.name}: write the number of your device into the expression"

    def param(self, name: str) -> float | str:
        """The value, or why it cannot be used."""
        if name not in self.params:
            return f"the run has no parameter {name!r}{did_you_mean(name, self.params)}"
        value = self.params[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            shown = json.dumps(value, default=str)
            return f"the parameter {name!r} is {shown[:60]}, which is not a number"
        return float(value)


def is_wanted(tag: str, config: MetricCollectionConfig, *, included: bool = False) -> bool:
    """Whether a tag becomes metrics. `tags_to_ignore` overrides `include_tags` and `included`."""
    if matches_any(config.tags_to_ignore, tag):
        return False
    return included or not config.include_tags or matches_any(config.include_tags, tag)


def described(metrics: Iterable[Metric], config: MetricCollectionConfig) -> Iterator[Metric]:
    """Yield the metrics with what the config or their names tell about them, where their source did not.

    Metrics that a strategy made of a tag have their facts already.
    """
    for metric in metrics:
        if isinstance(metric.strategy, Strategy):
            yield metric
            continue
        kind = known_about(metric.name, config.facts)
        yield replace(metric, unit=metric.unit or kind.unit, better=metric.better or kind.better)


def generated(metrics: Iterable[Metric], config: MetricCollectionConfig) -> Iterator[Metric]:
    """Yield the metrics that the package adds to a run by itself, without those that the config ignores."""
    named = (replace(metric, name=storable_name(metric.name)) for metric in metrics)
    return described((metric for metric in named if is_wanted(metric.name, config, included=True)), config)
