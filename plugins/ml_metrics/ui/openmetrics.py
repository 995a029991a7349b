"""The newest run of each test as OpenMetrics text: gauges for the job, and one for each name of a metric."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ml_metrics.core.text import printable
from ml_metrics.core.units import BYTES, SECONDS

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
UNITS = {SECONDS: "seconds", BYTES: "bytes"}
"""The units that OpenMetrics has words for. A family with a unit ends with it."""
FAMILY = "ml_metrics_"
SUCCEEDED = f"{FAMILY}job_succeeded"
"""1 if the workload succeeded, else 0."""
STOPPED = f"{FAMILY}job_stopped_timestamp_seconds"
"""When the run stopped. Samples have no time of their own: the collector of textfiles refuses those that have."""
LEFT_OUT = f"{FAMILY}left_out_series"
"""How many values were left out, so that the text has a bounded size."""
EVERY = 1 << 60


Sample = Sequence[Any]
"""One value of a run: the metric, its value, verdict and unit."""
NewestRun = tuple[str, datetime, bool, Iterable[Sample]]
"""The test, when its run stopped, whether it succeeded, and its values, those that matter most first."""


def openmetrics(
    runs: Iterable[NewestRun], *, most_series: int = EVERY, most_bytes: int = EVERY, left_out: int = 0
) -> str:
    """Results of jobs first. What exceeds the limits is added to the `left_out` values, and their number is stated."""
    text, runs = _Text(most_series, most_bytes, left_out), list(runs)
    for test, at, succeeded, _ in runs:
        text.add(SUCCEEDED, "", _labels(test=test), int(succeeded))
        text.add(STOPPED, "seconds", _labels(test=test), at.timestamp())
    for test, _, _, samples in runs:
        for metric, given, verdict, unit in samples:
            word = UNITS.get(unit, "")
            name = FAMILY + re.sub(r"[^a-zA-Z0-9_]", "_", metric)
            family = f"{name.removesuffix(f'_{word}')}_{word}" if word else name
            value = math.nan if given is None else float(given)
            labels = _labels(test=test, metric=metric, verdict=str(verdict or ""))
            text.add(family, word, labels, "NaN" if math.isnan(value) else repr(value))
    return text.whole()


@dataclass(slots=True)
class _Text:
    """Samples by family, since those of one family must follow each other. No series is there twice."""

    most_series: int
    most_bytes: int
    left_out: int
    families: dict[str, tuple[str, dict[str, object]]] = field(default_factory=dict)
    """By name: the unit, and the values by their labels."""
    series: int = 0
    size: int = 0

    def add(self, family: str, unit: str, labels: str, value: object) -> None:
        size = len(family) + len(labels.encode()) + 30
        if self.series >= self.most_series or self.size + size > self.most_bytes:
            self.left_out += 1
            return
        _, samples = self.families.setdefault(family, (unit, {}))
        if labels in samples:  # two names look the same without the characters that cannot be shown
            self.left_out += 1
            return
        if not samples:
            size += 2 * len(family) + 40
        samples[labels] = value
        self.series += 1
        self.size += size

    def whole(self) -> str:
        lines = []
        if self.left_out:
            self.families[LEFT_OUT] = "", {"": self.left_out}
        for family, (word, samples) in self.families.items():
            unit = [f"# UNIT {family} {word}"] if word else []
            lines += [f"# TYPE {family} gauge", *unit, *(f"{family}{labels} {one}" for labels, one in samples.items())]
        return "\n".join([*lines, "# EOF", ""])


def _labels(**labels: str) -> str:
    escaped = {name: printable(text).replace("\\", "\\\\").replace('"', '\\"') for name, text in labels.items()}
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}"
