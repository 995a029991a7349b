"""Figures of one run: values by name, reasons for those that it lacks, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures about the cost or the efficiency of one run."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """By name: why the run lacks a figure."""
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    """The prices, the formula and the peak that they were computed with."""

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            {**self.values, **other.values},
            {**self.missing, **other.missing},
            (*self.warnings, *other.warnings),
            {**self.metadata, **other.metadata},
        )
