"""The measured precision of alerts: the share of regressions among the incidents that users assessed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.warehouse import Assessment

DAYS = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Precision:
    """The incidents of a time, by their assessment."""

    regressions: int = 0
    false_alarms: int = 0
    undecided: int = 0
    """Nobody has assessed them: they count for neither side."""

    @classmethod
    def of(cls, assessments: Iterable[Assessment]) -> Precision:
        """Count assessments."""
        counts = Counter(one.is_regression for one in assessments)
        return cls(counts[True], counts[False], counts[None])

    @property
    def assessed(self) -> int:
        """The incidents that users have assessed."""
        return self.regressions + self.false_alarms

    @property
    def share(self) -> float | None:
        """The share of regressions among the assessed incidents; None if there are none."""
        return self.regressions / self.assessed if self.assessed else None
