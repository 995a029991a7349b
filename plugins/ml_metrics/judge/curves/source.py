"""Where the judge finds curves: those of the judged run, and those of the runs before it, read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ml_metrics.model import CURVE_SUFFIX, TagCurve

CurvesOfRuns = Mapping[tuple[str, str], TagCurve]
"""Curves by run key and tag."""
ReadCurves = Callable[[Sequence[str], Sequence[str]], CurvesOfRuns]
"""Reads the curves of some runs, by their keys, and some tags."""


class Curves:
    """The curves of a judgement or a replay. Curves of past runs are read at most once, for all tags together."""

    def __init__(self, own: CurvesOfRuns | None = None, read: ReadCurves | None = None) -> None:
        self._found = dict(own or {})
        self._tags = sorted({tag for _, tag in self._found})
        self._read_from = read
        self._read: set[str] = set()

    def of(self, run_key: str, metric: str) -> TagCurve | None:
        """Return the curve of a run that is given or was read; None if there is none."""
        return self._found.get((run_key, metric.removesuffix(CURVE_SUFFIX)))

    def past(self, metric: str, run_keys: Sequence[str]) -> list[TagCurve]:
        """Return the curves of past runs, in the order of their keys, without those that are not stored."""
        unread = [key for key in run_keys if key not in self._read]
        if unread and self._read_from is not None:
            self._found = {**self._read_from(unread, self._tags), **self._found}
            self._read.update(unread)
        curves = (self.of(key, metric) for key in run_keys)
        return [curve for curve in curves if curve is not None and curve.steps]


NO_CURVES = Curves()
