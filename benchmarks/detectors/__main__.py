"""Rules that look for losses, side by side: what they find, how soon, and how often they alarm about nothing.

Each table of docs/detectors.md, and of README.md for contributors, is measured in two processes and written into its
page: of all rules, or of those that --rule names. `make bench NAME=detectors` installs what other projects'
rules need.

    python -m benchmarks.detectors                    # everything, five to ten minutes on two cores
    python -m benchmarks.detectors --rule NAME        # one rule: its row in each table
    python -m benchmarks.detectors --quick            # 20 s, a small planted year of every rule; writes nothing
    python -m benchmarks.detectors --fit              # prints the weights that fit all labelled series
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.changepoints import WEIGHTS
from ml_metrics.judge.level import LevelRule, follow

from .fleet import fleet
from .noise import FAMILIES
from .page import has, in_page, row
from .real import labelled_series, tcpd_series, windows
from .rules import OURS, RULES
from .scores import Score, agreement_of, covering_of, f1_of, starts_of
from .silent import AGAIN, SILENT, agreement_figures, silent_figures, wandering_figures
from .stories import cases
from .weights import Candidates, fitted_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .page import Rows
    from .real import Labelled, Window
    from .stories import Case

PAGES = (Path(__file__).parents[2] / "docs" / "detectors.md", Path(__file__).with_name("README.md"))
"""For users, and for contributors who change a rule. Each table is on one of them."""
SEED = 2026
"""The seed by which rules are compared. The tuned ones were tuned on another."""
SEEDS, SILENT_SEEDS, FEW_SEEDS = range(7001, 7003), range(7001, 7017), range(7001, 7002)
"""The seeds of our own tables, on which no constant was chosen; the last ones for all rules."""
COMPARED = ("recovery", "bad nights")
QUICK = ("normal", "heavy tails")
LOSSES, HEALTHY, AFTER, METRICS = (0.05, 0.1, 0.2), 60, 15, 30
QUIET, KNOWN, QUIET_METRICS, OUR_QUIET_METRICS = 90, 30, 60, 400
"""The nights of a metric without a loss, and those before the first that counts."""
NIGHT = 20_000
HALVES, CERTAINTY = range(2), 0.5
FITTED = "`ml-metrics changes`, fitted to one half and shown on the other (twice)"


@cache
def year(families: tuple[str, ...], seed: int = SEED) -> list[Case]:
    return cases(seed, families, COMPARED)


@cache
def real_windows() -> list[Window]:
    return windows()


def planted(rule: str, families: tuple[str, ...] = tuple(FAMILIES)) -> Rows:
    """The planted year: losses, creeps, bad nights and nothing in each family of noise."""
    score, started = Score(), time.process_time()
    many = year(families)
    for case, failing in zip(many, RULES[rule].fails([case.values for case in many], [0] * len(many)), strict=True):
        score.add(case, failing)
    milliseconds = 1_000 * (time.process_time() - started) / sum(len(case.values) for case in many)
    found = f"{score.found()} %", f"{score.false_starts():.2f}", str(score.stuck), str(score.blind)
    return {rule: [*found, f"{milliseconds:.2g}"]}


def nights(rule: str) -> Rows:
    """Nights of a fleet: losses of three sizes, and alarms without any."""
    found, alarms = [], Score()
    for loss in LOSSES:
        score = Score()
        lost = fleet(SEED, METRICS, HEALTHY + AFTER, loss, HEALTHY)
        for failing in RULES[rule].fails(lost, [HEALTHY] * METRICS):
            score.add_loss(failing[HEALTHY:])
        found.append(f"{score.found()} %")
    quiet = fleet(SEED, OUR_QUIET_METRICS if rule == OURS else QUIET_METRICS, QUIET)
    for failing in RULES[rule].fails(quiet, [KNOWN] * len(quiet)):
        alarms.add_healthy(starts_of(failing)[KNOWN:], QUIET - KNOWN)
    least = NIGHT / alarms.healthy
    return {rule: [*found, f"{alarms.false_starts(NIGHT):.1f}" if alarms.starts else f"0 (below {3 * least:.1f})"]}


def real(rule: str) -> Rows:
    """Windows of real series."""
    some, large, alarms = Score(), Score(), Score()
    many = real_windows()
    since = [window.change or 0 for window in many]
    for window, failing in zip(many, RULES[rule].fails([window.values for window in many], since), strict=True):
        if window.change is None:
            alarms.add_healthy(starts_of(failing), len(failing))
            continue
        for score in (some, large)[: 1 + (window.percent >= 5)]:
            score.add_loss(failing[window.change :][:AFTER])
    starts = f"{alarms.false_starts():.2f}", f"{alarms.false_starts(NIGHT):.0f}"
    return {rule: [f"{some.found()} %", f"{large.found()} %", *starts]}


def silent(rule: str) -> Rows:
    """Losses that could pass for ever, and their quiet twins."""
    kinds = [one for name, one in SILENT.items() if name != AGAIN for _ in FEW_SEEDS]
    seeds = [seed for name in SILENT if name != AGAIN for seed in FEW_SEEDS]
    lost = [one.worse * one.series(seed) for one, seed in zip(kinds, seeds, strict=True)]
    quiet = [one.worse * one.quiet(seed) for one, seed in zip(kinds, seeds, strict=True)]
    flags = RULES[rule].fails(lost, [one.history for one in kinds])
    told = [failing[one.history :][: one.within].any() for one, failing in zip(kinds, flags, strict=True)]
    alarms = [failing.any() for failing in RULES[rule].fails(quiet, [0] * len(quiet))]
    return {rule: [f"{sum(told)} of {len(told)}", f"{sum(alarms)} of {len(alarms)}"]}


def places(rule: str) -> Rows:
    """Places in whole series, beside those that people mark."""
    search = RULES[rule].places
    series = labelled_series() if search else []
    agreement = agreement_of((one, search(np.asarray(one.values))) for one in series if search)
    shares = [f"{share:.2f}" for share in (agreement.precision, agreement.recall, agreement.f1, agreement.mean_f1)]
    return {rule: [*shares, str(agreement.silent)]} if series else {}


def tcpd(rule: str) -> Rows:
    """Places in the series of the Turing data set, by its own scores."""
    search = RULES[rule].places
    found = [(one, search(np.asarray(one.values))) for one in tcpd_series()] if search else []
    if not found:
        return {}
    f1 = fmean(f1_of(one.people, marks) for one, marks in found)
    return {
        rule: [f"{f1:.2f}", f"{fmean(covering_of(one.people, marks, len(one.values)) for one, marks in found):.2f}"]
    }


def fitted(_: str) -> Rows:
    """Our search, with weights that are fitted to one half of the series and shown on the other, both ways."""
    many = [agreement_of(_by_halves(labelled_series(), seed)) for seed in HALVES] if labelled_series() else []
    columns = zip(*([one.precision, one.recall, one.f1, one.mean_f1] for one in many), strict=True)
    shares = [f"{min(each):.2f} to {max(each):.2f}" for each in columns]
    unmarked = sorted(one.silent for one in many)
    return {FITTED: [*shares, f"{unmarked[0]} to {unmarked[-1]}"]} if many else {}


def _by_halves(series: Sequence[Labelled], seed: int) -> Iterator[tuple[Labelled, list[int]]]:
    """Parts of one longer series are in the same half."""
    origins = sorted({one.origin for one in series})
    Random(seed).shuffle(origins)
    first = set(origins[::2])
    halves = [[Candidates(one) for one in series if (one.origin in first) is inside] for inside in (True, False)]
    for known, shown in (halves, halves[::-1]):
        weights = fitted_weights(known)
        for one in shown:
            yield one.series, [edge for _, edge, _ in one.remaining(weights, CERTAINTY)]


def families(_: str) -> Rows:
    """Our default rule in each family of noise, over all stories."""
    rows: dict[str, list[str]] = {}
    total = Score()
    for family in FAMILIES:
        score = Score()
        for case in (case for seed in SEEDS for case in cases(seed, (family,))):
            failing = follow(case.values, LevelRule(worse=1)).failing
            score.add(case, failing)
            total.add(case, failing)
        rows[family] = _family(score)
    return {**rows, "all": _family(total)}


def _family(score: Score) -> list[str]:
    creeps = f"{len(score.crept)} of {score.creeps}, {np.median(score.crept):.1f} %" if score.crept else "0"
    return [f"{score.found()} %", f"{score.false_starts():.2f}", str(score.stuck), str(score.blind), creeps]


def losses(_: str) -> Rows:
    """Our default rule on losses that could pass for ever."""
    return {
        name: [f"{one['soon']}/{one['late']}", f"{one['in time']} within {one['runs']}", str(one["quiet"])]
        for name, one in silent_figures(SILENT_SEEDS).items()
    }


def wandering(_: str) -> Rows:
    """Our default rule where the level does not hold still."""
    found = wandering_figures(SILENT_SEEDS)
    return {name: [f"{alarms} of {len(SILENT_SEEDS)}", f"{named} %"] for name, (alarms, named) in found.items()}


def agreeing(_: str) -> Rows:
    """How many changes of which the search is certain our default rule tells."""
    found = agreement_figures() if labelled_series() else {}
    return {size: [f"{told} of {count}"] for size, (told, count) in found.items()}


def sources(_: str) -> Rows:
    """Where each rule is from."""
    return {name: [one.source] for name, one in RULES.items()}


OF_RULES: tuple[Callable[[str], Rows], ...] = (real, planted, nights, silent, places, tcpd)
OF_OURS: dict[Callable[[str], Rows], tuple[str, list[str]]] = {
    families: ("families", [*FAMILIES, "all"]),
    fitted: ("places", []),
    losses: ("losses", list(SILENT)),
    agreeing: ("agreeing", []),
    wandering: ("wandering", []),
    sources: ("sources", list(RULES)),
}
"""What is made without a rule's name: in which table it is, and the names of its rows in order."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.detectors", description="compare rules that look for losses"
    )
    parser.add_argument(
        "--rule", action="append", choices=list(RULES), metavar="NAME", help="only this one; repeatable"
    )
    parser.add_argument("--table", action="append", metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--quick", action="store_true", help="a small planted year; writes nothing")
    parser.add_argument("--fit", action="store_true", help="print the weights that fit all labelled series")
    options = parser.parse_args(arguments)
    here = [name for name in options.rule or RULES if RULES[name].is_here]
    for name in set(options.rule or RULES) - set(here):
        print(f"absent: {name}, which needs {RULES[name].needs}: make bench NAME=detectors")
    if options.fit:
        for name, weights in {"shipped": WEIGHTS, "fitted": fitted_weights(map(Candidates, labelled_series()))}.items():
            print(f"{name:<9} {', '.join(f'{weight:.3f}' for weight in weights)}")
    elif options.quick:
        for name in here:
            print(*(row(*each) for each in planted(name, QUICK).items()), flush=True)
    else:
        write(here, whole=not options.rule, only=options.table)


def write(here: Sequence[str], *, whole: bool, only: Sequence[str] | None = None) -> None:
    """Measure every table in two processes, and write the rows that there are into the pages."""
    jobs = [(table, name) for table in OF_RULES for name in here if table is planted or RULES[name].places]
    jobs += [(table, "") for table in OF_OURS if whole]
    jobs = [(table, name) for table, name in jobs if not only or table.__name__ in only]
    rows: dict[str, dict[str, Sequence[str]]] = {}
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(2) as pool:
        asked = {pool.submit(_timed, table, name): (table, name) for table, name in jobs}
        for number, done in enumerate(as_completed(asked), 1):
            (table, name), (found, seconds) = asked[done], done.result()
            rows.setdefault(OF_OURS[table][0] if table in OF_OURS else table.__name__, {}).update(found)
            print(f"[{number}/{len(jobs)}] {table.__name__} {name}: {seconds:.1f} s", flush=True)
            for each in found.items():
                print(f"    {row(*each)}", flush=True)
    order = {name: names for name, names in OF_OURS.values() if names}
    for table, found in rows.items():
        (page,) = (page for page in PAGES if has(page.read_text(), table))
        names = order.get(table, [*list(RULES)[:1], FITTED, *list(RULES)[1:], *found])
        page.write_text(in_page(page.read_text(), table, found, names))


def _timed(table: Callable[[str], Rows], name: str) -> tuple[Rows, float]:
    started = time.process_time()
    return table(name), time.process_time() - started


if __name__ == "__main__":
    main()
