"""How long run folders are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from ml_metrics.settings import Settings

MAX_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Ages:
    """The age at which the folder of a run is removed; None: never."""

    passed: timedelta | None = None
    failed: timedelta | None = None
    """That of a run that failed or never finished."""

    @classmethod
    def of(cls, settings: Settings) -> Ages:
        """Return what the settings state."""
        return cls(*(days(name, getattr(settings, name)) for name in ("keep_runs_days", "keep_failed_runs_days")))

    @property
    def are_set(self) -> bool:
        """Whether any run is ever removed."""
        return self.passed is not None or self.failed is not None


def days(name: str, text: str) -> timedelta | None:
    """Return the age that a setting states; None if it is empty."""
    if not text.strip():
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_DAYS):
        raise ConfigError(
            f"[ml_metrics] {name}: should be a whole number of days from 1 to {MAX_DAYS:,}, or empty, not {text!r}"
        )
    return timedelta(days=int(text))
