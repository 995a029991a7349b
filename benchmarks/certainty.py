"""How often healthy runs are given a small false alarm rate, for several kinds of noise.

A rate promises: of healthy runs with such a history, at most this share has a value at least as bad. So at most one
healthy run in a hundred may be given a rate of 0.01 or less, whatever the noise. The promise is about a run of unknown
age: noise whose size changes with time is sampled at every time.

The same is promised of the difference between two single runs, beside the differences between the runs before both; and
it is measured which differences are found.
"""

from __future__ import annotations

import sys

import numpy as np

from detectors.noise import FAMILIES, Noise, Random
from ml_metrics.config.conditions import Comparison
from ml_metrics.judge.compare.two_runs import FEWEST_RUNS, LEVEL, PairNoise
from ml_metrics.judge.noise import false_alarm_rate

RATES = (0.1, 0.01, 0.001)
HISTORIES = (5, 10, 20, 50, 100)
SERIES, RUNS = 60, 40
"""How many series of each kind, and how many runs of each are judged."""
SAMPLING_ERROR = 1.25
"""How far a measured share may exceed its rate: runs of one series share their history, so they are not independent."""


KINDS = {
    name: FAMILIES[name].noise
    for name in (
        "normal", "heavy tails", "memory .3", "memory .5", "memory .7", "two modes", "quantised", "seasons", "variance",
        "skewed",
    )
}  # fmt: skip


def rates_of(noise: Noise, history: int, rng: Random) -> list[float]:
    """Return the rates of healthy runs of one series, for both directions."""
    rates = []
    values = noise(rng, 2 * RUNS + history + 60)[int(rng.integers(60)) :]
    for run in range(history, history + 2 * RUNS, 2):
        for way in (Comparison.LESS, Comparison.GREATER, Comparison.WITHIN):
            rate = false_alarm_rate(float(values[run]), values[run - history : run].tolist(), way)
            rates.append(1.0 if rate is None else rate)
    return rates


def outside(noise: Noise, history: int, rng: Random, change: float = 0.0) -> list[bool]:
    """Return which pairs of runs after a history are outside its noise, if the second of both is changed by so much."""
    values = noise(rng, history + 2 * RUNS + 60)[int(rng.integers(60)) :]
    found = PairNoise(values[:history].tolist())
    if found.runs < FEWEST_RUNS:
        return [False] * RUNS
    gaps = rng.integers(1, RUNS, size=RUNS)
    pairs = [(values[history + first], values[history + first + gap]) for first, gap in enumerate(gaps)]
    return [bool(found.widest) and found.rate(abs(second + change - first)) <= LEVEL for first, second in pairs]


def pairs(rng: Random) -> list[str]:
    """Print the shares of pairs of single runs that are outside the noise, and return the kinds with too many."""
    print(
        "\npairs of single runs outside the noise (99 %), in 1,000; of normal noise also with a change, in deviations"
    )
    print("runs of history", *(f"{history:>8}" for history in HISTORIES[1:]))
    failed = []
    for kind, noise in KINDS.items():
        shares = [[np.mean(outside(noise, history, rng)) for _ in range(SERIES)] for history in HISTORIES[1:]]
        print(f"{kind:15}", *(f"{1_000 * np.mean(share):8.1f}" for share in shares))
        if np.mean(shares) > LEVEL * SAMPLING_ERROR:
            failed.append(f"{kind} (pairs)")
    for change in (4, 6, 8, 10):
        found = (
            np.mean([outside(KINDS["normal"], history, rng, change) for _ in range(SERIES)])
            for history in HISTORIES[1:]
        )
        print(f"changed by {change:<4}", *(f"{1_000 * share:8.0f}" for share in found))
    return failed


def main() -> None:
    """Print the shares of healthy runs with small rates, by noise and length of the history."""
    rng = np.random.default_rng(16)
    failed = []
    print("healthy runs with a stated rate of at most 0.1, 0.01 and 0.001, in 1,000 runs")
    print("runs of history", *(f"{history:>17}" for history in HISTORIES), f"{'all':>17}")
    for kind, noise in KINDS.items():
        by_history = [
            np.array([rate for _ in range(SERIES) for rate in rates_of(noise, history, rng)]) for history in HISTORIES
        ]
        groups = [*by_history, np.concatenate(by_history)]
        shares = [[float(np.mean(group <= rate)) for rate in RATES] for group in groups]
        cells = ("{:6.1f}{:6.2f}{:5.2f}".format(*(1_000 * share for share in three)) for three in shares)
        print(f"{kind:15}", *cells)
        if any(share > rate * SAMPLING_ERROR for share, rate in zip(shares[-1], RATES, strict=True)):
            failed.append(kind)
    failed += pairs(rng)
    if failed:
        sys.exit(f"more false alarms than stated: {', '.join(failed)}")


if __name__ == "__main__":
    main()
