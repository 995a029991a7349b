"""Samples of devices while a job ran: kept as sums and extremes, so that memory does not grow with the job."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.collect.source import AS_WRITTEN
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NAMES = 500
MAX_DEVICES = 20_000
MAX_CODES = 50


@dataclass(slots=True)
class _Gauge:
    unit: str
    count: int = 0
    total: float = 0.0
    largest: float = -math.inf


@dataclass(slots=True)
class _Counter:
    unit: str
    increase: float = 0.0
    count: int = 0
    last: dict[str, float] = field(default_factory=dict)
    """By device."""


@dataclass(slots=True)
class DeviceSamples:
    """What all devices reported, by name of the metric."""

    gauges: dict[str, _Gauge] = field(default_factory=dict)
    counters: dict[str, _Counter] = field(default_factory=dict)
    errors: dict[str, set[int]] = field(default_factory=dict)
    """The error codes of each device that reported any."""
    reports_errors: bool = False
    not_available: int = 0
    """Samples whose value is a code for one that is not available."""
    impossible: int = 0
    """Samples outside the range of what they measure."""
    left_out: int = 0
    """Samples of more metrics or devices than are kept."""

    def add(self, name: str, unit: str, value: float) -> None:
        """Add a sample of something that rises and falls."""
        gauge = self.gauges.get(name)
        if gauge is None:
            if len(self.gauges) >= MAX_NAMES:
                self.left_out += 1
                return
            gauge = self.gauges[name] = _Gauge(unit)
        gauge.count += 1
        gauge.total += value
        gauge.largest = max(gauge.largest, value)

    def count(self, name: str, unit: str, device: str, value: float) -> None:
        """Add the value of a counter. One that falls has begun anew."""
        counter = self.counters.setdefault(name, _Counter(unit))
        before = counter.last.get(device)
        if before is None and len(counter.last) >= MAX_DEVICES:
            self.left_out += 1
            return
        counter.last[device] = value
        counter.count += 1
        if before is not None:
            counter.increase += value - before if value >= before else value

    def error(self, device: str, code: int) -> None:
        """Add the last error code of a device; 0 is none."""
        self.reports_errors = True
        if not code:
            return
        codes = self.errors.get(device)
        if codes is None:
            if len(self.errors) >= MAX_DEVICES:
                self.left_out += 1
                return
            codes = self.errors[device] = set()
        if len(codes) < MAX_CODES:
            codes.add(code)

    def metrics(self, prefix: str) -> Iterator[Metric]:
        """Yield average and maximum of each gauge over all devices and samples, and the increase of each counter."""
        for name, gauge in self.gauges.items():
            for strategy, value in (("average", gauge.total / gauge.count), ("max", gauge.largest)):
                yield _metric(f"{prefix}{name}_{strategy}", value, gauge.unit, gauge.count)
        for name, counter in self.counters.items():
            yield _metric(f"{prefix}{name}", counter.increase, counter.unit, counter.count)
        if self.reports_errors:
            yield _metric(f"{prefix}gpu/devices_with_xid_errors", float(len(self.errors)), "", 1)

    def metadata(self) -> dict[str, str]:
        """Return which devices reported which errors."""
        if not self.errors:
            return {}
        named = (f"{device}: {', '.join(map(str, sorted(codes)))}" for device, codes in sorted(self.errors.items()))
        return {"gpu_xid_errors": "; ".join(named)}


def _metric(name: str, value: float, unit: str, points: int) -> Metric:
    return Metric(name, value, name, AS_WRITTEN, points=points, unit=unit)
