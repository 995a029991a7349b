"""Loss curves of trainings that never happened."""

from __future__ import annotations

import numpy as np

from ml_metrics.core.model import Series, TagCurve
from ml_metrics.measure.curves import curve_of


def losses(seed: int, *, rate: float = 1.0, steps: int = 2_000, noise: float = 0.03) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and the loss of a training at a multiple of the right learning rate, with noise that remembers."""
    random = np.random.default_rng(seed)
    at = np.arange(0, steps, 5)
    loss = 2.0 + 8.0 * np.exp(-at * rate / 300) + 1.5 / np.sqrt(1 + at * rate / 50) + 0.12 * max(0.0, rate - 1) ** 1.5
    remembered = np.zeros(len(at))
    for index, step in enumerate(random.standard_normal(len(at))):
        remembered[index] = 0.95 * remembered[index - 1] + 0.31 * step
    size = noise * (1 + 5 * np.exp(-at / 200))
    return at, loss + size * (remembered + random.standard_normal() * 0.5)


def curve(values: tuple[np.ndarray, np.ndarray], better: str = "lower") -> TagCurve:
    at, loss = values
    return curve_of(Series(".", "loss", at.astype(np.int64), at.astype(np.float64), loss), better)


def good_runs(count: int, first: int = 100) -> list[TagCurve]:
    return [curve(losses(first + number)) for number in range(count)]
