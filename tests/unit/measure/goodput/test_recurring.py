from __future__ import annotations

import numpy as np
import pytest

from ml_metrics.measure.goodput.steps import recurring


def usual(steps: dict[int, float], span: tuple[int, int]) -> list[float]:
    return list(recurring(np.array(list(steps)), np.array(list(steps.values())), span))


@pytest.mark.parametrize(
    ("steps", "span", "expected"),
    [
        ({}, (0, 10), []),
        ({70: 9.0}, (0, 100), []),
        ({100: 9.0, 200: 8.0}, (1, 250), [8.5]),
        ({100: 9.0, 200: 80.0}, (1, 250), []),  # of different sizes
        ({100: 9.0, 200: 8.0}, (1, 450), []),  # and nothing at 300 and 400
        ({137: 9.0, 420: 8.0}, (1, 500), []),
        ({100: 9.0, 137: 900.0, 200: 9.0}, (1, 250), [9.0]),
        ({99: 9.0, 199: 9.0, 299: 900.0, 399: 9.0}, (1, 450), [9.0]),
        ({61: 5.0, 119: 5.0, 137: 900.0, 181: 5.0, 240: 5.0, 302: 5.0}, (1, 350), [5.0]),
        ({5: 5.0, 6: 5.0, 7: 5.0}, (1, 10), []),
    ],
)
def test_long_steps_on_a_schedule(steps: dict[int, float], span: tuple[int, int], expected: list[float]) -> None:
    assert usual(steps, span) == expected


def test_two_schedules() -> None:
    steps = {step: 30.0 * (step % 100 == 0) + 70.0 * (step % 250 == 0) for step in range(1, 2000)}
    assert usual({step: seconds for step, seconds in steps.items() if seconds}, (1, 1999)) == [30.0, 70.0]
