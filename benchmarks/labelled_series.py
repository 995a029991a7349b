"""How the changes of level found in whole series agree with the places that five people marked.

Two sets of series, which may not be shipped, are read from `../shared` if they are there: nightly results of a large
product, and the Turing change point data set. `whole_series/scores.py` defines the figures.

Our weights are fitted to the first set. For an honest figure, they are fitted to one half of it and shown on the other,
both ways; parts of one longer series are in the same half. apache-otava runs if `OTAVA_PYTHON`, or .venv-otava, has it.

    python benchmarks/labelled_series.py         # half a minute
    python benchmarks/labelled_series.py --fit   # only prints the weights that fit all labelled series
"""

from __future__ import annotations

import argparse
import time
from random import Random
from typing import TYPE_CHECKING

from ml_metrics.judge.changepoints import WEIGHTS
from run_by_run.rules import OTAVA_PYTHON
from whole_series import labelled, tcpd
from whole_series.labelled import labelled_series
from whole_series.rules import find_by_otava, rules
from whole_series.scores import Score, score_of
from whole_series.tcpd import tcpd_figures, tcpd_series
from whole_series.weights import Candidates, fitted_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from whole_series.labelled import Labelled

SEEDS = range(5)
"""The halves are drawn so many times."""
CERTAINTY = 0.5
TARGETS = "targets: F1 .85 with precision .90, mean F1 .87, silent 3; covering of the other series .72 with F1 .74"


def main() -> None:
    """Print a table for each set of series."""
    parser = argparse.ArgumentParser(description="compare level changes with the marks of people")
    parser.add_argument("--fit", action="store_true", help="print the weights that fit all labelled series")
    arguments = parser.parse_args()
    series = labelled_series()
    if arguments.fit:
        for name, weights in {"shipped": WEIGHTS, "fitted": fitted_weights(map(Candidates, series))}.items():
            print(f"{name:<9} {', '.join(f'{weight:.3f}' for weight in weights)}")
        return
    if series:
        print_labelled(series)
    else:
        print(f"the labelled series are absent: there is no {labelled.FILE}")
    print_tcpd()
    print(TARGETS)


def print_labelled(series: Sequence[Labelled]) -> None:
    """Print the score of each rule on the labelled series."""
    title = f"{len(series)} series of nightly results"
    print(f"{title:<40} {'P':>6} {'R':>6} {'F1':>6} {'mean F1':>8} {'silent':>7} {'s':>6}")
    for name, find in rules().items():
        started = time.process_time()
        score = score_of((one, find(one.values)) for one in series)
        print_score(name, score, time.process_time() - started)
    if OTAVA_PYTHON.exists():
        found = find_by_otava([one.values for one in series])
        print_score("apache-otava 0.8, defaults", score_of(zip(series, found, strict=True)))
    else:
        print(f"apache-otava is absent: there is no {OTAVA_PYTHON}")
    for seed in SEEDS:
        print_score(f"ours, fitted to the other half ({seed + 1})", score_of(found_by_halves(series, seed)))


def print_score(name: str, score: Score, seconds: float | None = None) -> None:
    """Print one line of the table."""
    shares = f"{score.precision:>6.3f} {score.recall:>6.3f} {score.f1:>6.3f} {score.mean_f1:>8.3f}"
    print(f"{name:<40} {shares} {score.silent:>7} {'' if seconds is None else f'{seconds:>6.1f}'}".rstrip())


def found_by_halves(series: Sequence[Labelled], seed: int) -> Iterator[tuple[Labelled, list[int]]]:
    """Yield each series with the places found by the weights that fit the other half."""
    origins = sorted({one.origin for one in series})
    Random(seed).shuffle(origins)
    first = set(origins[::2])
    halves = [[one for one in series if (one.origin in first) is inside] for inside in (True, False)]
    candidates = [list(map(Candidates, half)) for half in halves]
    for fitted, shown in (candidates, candidates[::-1]):
        weights = fitted_weights(fitted)
        for one in shown:
            yield one.series, [edge for _, edge, _ in one.remaining(weights, CERTAINTY)]


def print_tcpd() -> None:
    """Print the score of each rule on the series of other fields."""
    many = tcpd_series()
    if not many:
        print(f"the series of other fields are absent: there is nothing in {tcpd.FOLDER}")
        return
    print(f"{f'{len(many)} series of other fields':<40} {'mean F1':>8} {'covering':>9}")
    for name, find in rules().items():
        f1, covering = tcpd_figures(find, many)
        print(f"{name:<40} {f1:>8.3f} {covering:>9.3f}")


if __name__ == "__main__":
    main()
