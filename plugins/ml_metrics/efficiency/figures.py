"""Figures of one run: values by name, reasons for those that it lacks, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run cost, or what it achieved."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """By name: why the run lacks a figure."""
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    """By which prices, formula and peak they were computed."""

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            {**self.values, **other.values},
            {**self.missing, **other.missing},
            (*self.warnings, *other.warnings),
            {**self.metadata, **other.metadata},
        )
