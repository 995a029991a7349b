"""A curve over a load is judged whole: by its level beside the curves before, and by where it is worse."""

from __future__ import annotations

import json
import math
import random
import re
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks import sweeps
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.config.loading import load_file
from ml_metrics.core.model import FAILED, JobStatus, Metric, Outcome, StoredMetric, Sweep, SweepPoint, Verdict
from ml_metrics.judge import judge_run
from ml_metrics.judge.sweeps import FLOOR, aligned, curve_state, points_of
from ml_metrics.measure import collect_run
from ml_metrics.store.run_folder import RunFolder

GRID = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0)
START = datetime(2026, 1, 5, tzinfo=UTC)
Change = Callable[[float, float], float]


def latency(x: float) -> float:
    """Flat, with a knee at about 50."""
    return 40.0 * (1.0 + (x / 50.0) ** 3)


def curve(seed: int, change: Change = lambda _, y: y, grid: Sequence[float] = GRID, noise: float = 0.01) -> Sweep:
    chance = random.Random(seed)
    points = (SweepPoint(x, change(x, latency(x)) * math.exp(chance.gauss(0, noise))) for x in grid)
    return Sweep("ttft", "concurrency", tuple(points), "", "ms", "lower")


def judged(
    curves: Sequence[Sweep | None], name: str = "ttft", rates: Sequence[Sweep] = (), **condition: object
) -> list[Verdict]:
    """Judge one run after the other, each by those before it. `rates`: another curve of each run."""
    config = RegressionTestConfig.model_validate({"curves": {name: {"comparison": "less", **condition}}})
    metric = f"curve/{name}"
    history: list[StoredMetric] = []
    stored: dict[tuple[str, str], Sweep] = {}
    verdicts = []
    for number, one in enumerate(curves):
        key, now = f"run-{number}", START + timedelta(days=number)
        metrics = [] if one is None else [Metric(metric, 100.0, name, "sweep", unit="%")]
        own = {} if one is None else {metric: one}
        own |= {"curve/rate": rates[number]} if rates else {}
        (verdict,) = judge_run(
            config, metrics, history, status=JobStatus.SUCCESS, run_key=key, now=now, test="t", curves=own,
            read_curves=lambda keys, _, stored=stored: {at: each for at, each in stored.items() if at[0] in keys},
        ).verdicts  # fmt: skip
        verdicts.append(verdict)
        stored |= {(key, tag): each for tag, each in own.items()}
        history.append(StoredMetric(key, now, metric, verdict.value, JobStatus.SUCCESS, verdict.outcome, test="t"))
    return verdicts


def after(count: int, change: Change, runs: int = 3, **of_curve: object) -> list[Verdict]:
    healthy = [curve(seed) for seed in range(count)]
    return judged([*healthy, *(curve(100 + seed, change, **of_curve) for seed in range(runs))])[count:]


def test_a_curve_is_judged_from_the_tenth_run_on() -> None:
    verdicts = judged([curve(seed) for seed in range(12)])
    assert [one.outcome for one in verdicts] == [Outcome.INSUFFICIENT_DATA] * 10 + [Outcome.PASS] * 2
    assert verdicts[9].reason == "the history has 9 of the 10 curves required"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda _, y: 1.1 * y, "everywhere by +"),
        (lambda x, y: 1.4 * y if x >= 64 else y, "from 64 on by +4"),
        (lambda x, y: 1.4 * y if x <= 16 else y, "up to 16 by +4"),
        (lambda x, y: y * latency(1.15 * x) / latency(x), "moved along x by -1"),
    ],
    ids=["everywhere", "above the knee", "below it", "an earlier knee"],
)
def test_a_worse_curve_fails_in_its_third_run_and_the_reason_says_where(change: Change, where: str) -> None:
    first, _, third = after(15, change)
    assert first.outcome is Outcome.PASS
    assert third.outcome is Outcome.FAIL
    assert where in third.reason
    assert "(concurrency)" in third.reason


@pytest.mark.parametrize("bad", [8.0, 64.0])
def test_one_noisy_point_is_no_alarm(bad: float) -> None:
    assert {one.outcome for one in after(15, lambda x, y: 2 * y if x == bad else y, runs=1)} == {Outcome.PASS}


@pytest.mark.parametrize(
    "grid", [(1.0, 3.0, 6.0, 12.0, 24.0, 48.0, 80.0, 120.0), GRID[:4] + GRID[5:], (64.0, 96.0, 128.0, 200.0, 400.0)]
)
def test_another_grid_and_a_missing_point_are_no_alarm(grid: Sequence[float]) -> None:
    verdicts = after(15, lambda _, y: y, runs=6, grid=grid)
    assert {one.outcome for one in verdicts} == {Outcome.PASS}


def test_a_curve_beyond_all_others_is_not_judged() -> None:
    (verdict,) = after(15, lambda _, y: y, runs=1, grid=(200.0, 400.0, 800.0))
    assert (verdict.outcome, verdict.reason) == (
        Outcome.INSUFFICIENT_DATA, "no earlier curve reaches any point of this one",
    )  # fmt: skip


def test_what_was_compared_is_said_if_it_is_not_all() -> None:
    (verdict,) = after(15, lambda _, y: y, runs=1, grid=(32.0, 64.0, 128.0, 256.0))
    assert verdict.reason.endswith("compared from 32 to 128: earlier curves do not reach the rest")


def test_failed_points_count_for_nothing_and_a_curve_of_them_is_no_number() -> None:
    healthy = [curve(seed) for seed in range(12)]
    failed = curve(50)
    some = Sweep(
        *_with(failed, [point._replace(y=0.0, mark=FAILED) if point.x > 90 else point for point in failed.points])
    )
    every = Sweep(*_with(failed, [point._replace(y=0.0, mark=FAILED) for point in failed.points]))
    verdicts = judged([*healthy, some, every, Sweep(*_with(failed, []))])
    assert [one.outcome for one in verdicts[-3:]] == [Outcome.PASS, Outcome.NON_FINITE, Outcome.NON_FINITE]
    assert verdicts[-1].reason == "no point of the curve was measured"


def _with(sweep: Sweep, points: Sequence[SweepPoint]) -> tuple[object, ...]:
    return (sweep.name, sweep.x_name, tuple(points), sweep.x_unit, sweep.unit, sweep.better)


def test_a_curve_that_a_run_lacks_is_missing_unless_it_may_be() -> None:
    assert judged([curve(0), None])[-1].outcome is Outcome.MISSING
    assert judged([curve(0), None], optional=True)[-1].outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("rule", "known", "lacks"),
    [
        ({}, "rate", ""),
        ({"traded_for": "rate"}, "rate", " and that of 'rate'"),
        ({"traded_for": "rate"}, "ttft", " and that of 'rate'"),
    ],
)
def test_a_curve_that_is_not_known_is_not_judged(rule: dict[str, str], known: str, lacks: str) -> None:
    config = RegressionTestConfig.model_validate({"curves": {"ttft": {"comparison": "less", **rule}}})
    (verdict,) = judge_run(
        config, [Metric("curve/ttft", 100.0, "ttft", "sweep", unit="%")], [], status=JobStatus.SUCCESS, run_key="run",
        now=START, test="t", curves={f"curve/{known}": curve(0)},
    ).verdicts  # fmt: skip
    assert verdict.outcome is Outcome.INSUFFICIENT_DATA
    assert verdict.reason == f"the curve of the run{lacks} is not known here"


CURVES = st.lists(
    st.lists(st.floats(0.001, 1e6), min_size=len(GRID), max_size=len(GRID)), min_size=14, max_size=24
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(CURVES, st.floats(0.01, 100.0), st.sampled_from([1, -1, 0]))
def test_another_unit_changes_no_verdict(values: list[list[float]], factor: float, worse: int) -> None:
    plain, scaled = (
        curve_state([_sweep(GRID, [by * y for y in ys]) for ys in values], worse) for by in (1.0, factor)
    )  # fmt: skip
    assert plain is not None
    assert scaled is not None
    assert [part.where for part in plain.parts] == [part.where for part in scaled.parts]
    np.testing.assert_allclose([part.value for part in plain.parts], [part.value for part in scaled.parts], rtol=1e-5)


def _sweep(xs: Sequence[float], ys: Sequence[float], better: str = "lower", name: str = "ttft") -> Sweep:
    return Sweep(name, "concurrency", tuple(map(SweepPoint, xs, ys)), better=better)


@example([1.5e-252, 0.0], [0.0])
@example([0.0, 0.0], [1.0, 1e6, 999999.9999999999])
@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=8), st.lists(st.floats(0.0, 1e6), min_size=1, max_size=9))
def test_nothing_is_said_beyond_the_ends_of_earlier_curves(ys: list[float], grid: list[float]) -> None:
    before, own = _sweep(range(len(ys)), ys), _sweep(sorted(set(grid)), [1.0] * len(set(grid)))
    found = aligned([points_of(one) for one in [before] * 12 + [own]])
    inside = [x for x in sorted(set(grid)) if x <= len(ys) - 1]
    assert (found is None and not inside) or (found is not None and found.x.tolist() == inside)
    state = curve_state([before] * 12 + [own], 1)
    assert state is None or not state.failing


def test_the_path_of_the_docs_leads_from_a_csv_to_a_judged_curve(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "curves.md").read_text()
    csv, text = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("csv", "yaml"))
    assert csv
    assert text
    (tmp_path / "my_load.yaml").write_text(textwrap.dedent(f"   {text[1].lstrip()}"))
    (test,) = load_file(tmp_path / "my_load.yaml").tests
    head, *rows = csv[1].split()
    chance, curves = random.Random(5), []
    for run in range(16):
        lines = [head]
        for x, ttft, rate in (map(float, row.split(",")) for row in rows):
            slow = 1.38 if run >= 13 and x >= 64 else 1.0
            lines.append(
                f"{x:g},{ttft * slow * math.exp(chance.gauss(0, 0.02))},{rate * math.exp(chance.gauss(0, 0.01))}"
            )
        folder = tmp_path / f"run-{run}"
        folder.mkdir()
        (folder / "load.csv").write_text("\n".join(lines))
        found = collect_run(test.metric_collection_config, RunFolder(str(folder)), None)
        curves.append(next(one for one in found.sweeps if one.name == "ttft_ms"))
    verdicts = judged(curves, "ttft_ms")
    assert [one.outcome for one in verdicts[10:]] == [Outcome.PASS] * 5 + [Outcome.FAIL]
    told = re.search(r"ttft_ms is worse from 64 on by \+\d\d", page)
    assert told
    assert verdicts[-1].reason.startswith(told[0][:-1])


def test_the_table_of_the_docs_is_what_was_measured() -> None:
    page, measured = sweeps.PAGE.read_text(), json.loads(sweeps.MEASURED.read_text())
    assert page == sweeps.in_docs(page, measured), "python benchmarks/sweeps.py --docs"
    assert set(measured) == {sweeps.Whole.name, *(one.name for one in sweeps.RIVALS)}
    assert {family for of_rule in measured.values() for family in of_rule} == {one.name for one in sweeps.FAMILIES}


def test_the_benchmark_finds_what_it_plants_and_nothing_else() -> None:
    (family,) = [one for one in sweeps.FAMILIES if "InferenceX" in one.name]
    found = sweeps.measure(family, 1, np.random.default_rng(1), sweeps.Whole(family))
    assert (found["alarms"], [case for case, times in found["found"].items() if times]) == (0, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("condition", "below", "above"),
    [
        ({"comparison": "less"}, False, True),
        ({"comparison": "greater"}, True, False),
        ({"comparison": "within"}, True, True),
        ({"comparison": "less", "traded_for": "rate"}, True, False),
    ],
)
def test_the_bounds_of_a_curve_are_what_three_runs_show_on_its_worse_side(
    condition: dict[str, str], below: bool, above: bool
) -> None:
    curves = [curve(seed, noise=0.05) for seed in range(14)]
    rates = [_sweep(GRID, [x / y for x, y, *_ in one.points], "higher", "rate") for one in curves]
    (verdict,) = judged(curves, rates=rates, **condition)[-1:]  # of a frontier, less is worse whatever its curves are
    assert verdict.outcome is Outcome.PASS
    assert verdict.bounds is not None
    assert verdict.watched is not None
    margin = verdict.watched.found_in_3
    assert margin > verdict.watched.floor == 2
    assert verdict.bounds.inclusive
    assert (verdict.bounds.lower, verdict.bounds.upper) == (
        pytest.approx(100 - margin) if below else -math.inf,
        pytest.approx(100 + margin) if above else math.inf,
    )


def test_an_open_loss_stays_open_until_two_runs_are_back() -> None:
    worse, healthy = (lambda _, y: 1.1 * y), [curve(seed) for seed in range(20)]
    runs = [*healthy, *(curve(100 + seed, worse) for seed in range(12)), *(curve(200 + seed) for seed in range(4))]
    outcomes = [one.outcome is Outcome.FAIL for one in judged(runs)][20:]
    assert outcomes == [False, False, *[True] * 11, False, False, False]


def test_a_shift_along_a_frontier_is_no_loss_and_less_of_both_is_one() -> None:
    def both(seed: int, load: float = 1.0, better: float = 1.0) -> tuple[Sweep, Sweep]:
        chance = random.Random(seed)
        latencies = [latency(x * load) * math.exp(chance.gauss(0, 0.01)) / better for x in GRID]
        rates = [x * load / latency(x * load) * math.exp(chance.gauss(0, 0.01)) * better for x in GRID]
        return _sweep(GRID, rates, "higher", "rate"), _sweep(GRID, latencies)

    healthy = [both(seed) for seed in range(20)]
    for change, is_worse in (({"load": 1.2}, False), ({"better": 0.94}, True), ({"better": 1.1}, False)):
        rates, latencies = zip(*healthy, *(both(100 + seed, **change) for seed in range(3)), strict=True)
        state = curve_state(rates, -1, traded_for=latencies)
        assert state is not None
        assert state.failing == is_worse
        assert (state.moved > 0.05) == ("load" in change)
        reason = judged(latencies, rates=rates, traded_for="rate")[-1].reason
        assert ("farther along the frontier than before" in reason) == ("load" in change), reason


def test_a_better_curve_that_lasts_is_the_one_to_keep() -> None:
    better = lambda _, y: 0.8 * y  # noqa: E731
    runs = [*(curve(seed) for seed in range(20)), *(curve(50 + seed, better) for seed in range(15))]
    back = judged([*runs, *(curve(100 + seed) for seed in range(3))])[-1]
    assert back.outcome is Outcome.FAIL
    assert "everywhere by +2" in back.reason


def test_a_better_curve_is_kept_from_its_twelfth_run_on() -> None:
    """Before, it is part of the noise. The eight runs before are the fewest that it is better than."""
    better = lambda _, y: 0.8 * y  # noqa: E731
    runs = [*(curve(seed) for seed in range(8)), *(curve(50 + seed, better) for seed in range(12))]
    eleven, twelve = (curve_state(runs[:end], 1) for end in (19, 20))
    assert eleven is not None
    assert twelve is not None
    assert eleven.parts[0].margin > 0.5
    assert twelve.parts[0].margin == FLOOR


@pytest.mark.parametrize(
    ("slope", "reason"),
    [(0.0005, "slowly: no run differs much from the ones before"), (0.001, "the level fell from 100 ")],
)
def test_a_curve_that_gets_worse_slowly_fails(slope: float, reason: str) -> None:
    """No few runs in a row differ much from those before them."""

    def fallen(days: int) -> Change:
        return lambda _, y: y / (1 + slope * days)

    curves = [curve(500 + day, fallen(max(0, day - 40))) for day in range(100)]
    assert not any(state is None or state.failing for state in (curve_state(curves[:end], -1) for end in (20, 40)))
    verdict = judged(curves, comparison="greater")[-1]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("ttft everywhere (concurrency): ")
    assert reason in verdict.reason


def test_reruns_of_one_night_are_fewer_witnesses() -> None:
    curves = [curve(seed, noise=0.02) for seed in range(20)]
    curves += [curve(90 + seed, lambda _, y: 1.05 * y, noise=0.02) for seed in range(3)]
    apart, of_one_night = (curve_state(curves, 1, nights=[*range(20), *last]) for last in ([20, 21, 22], [20, 20, 20]))
    assert apart is not None
    assert of_one_night is not None
    assert (apart.failing, of_one_night.failing) == (True, False)


def test_a_loss_after_a_better_level_stays_open() -> None:
    """Also when most of the runs are worse than the first ones."""
    levels = [1.0] * 20 + [0.8] * 15 + [1.1] * 40
    verdicts = judged([curve(seed, lambda _, y, level=level: level * y) for seed, level in enumerate(levels)])  # type: ignore[misc]
    assert {one.outcome for one in verdicts[38:]} == {Outcome.FAIL}
