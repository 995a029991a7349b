"""Logs of several workers: one is the clock, and what only others recorded is moved to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.measure.goodput import GoodputReport, measure
from ml_metrics.measure.goodput.log import Kind
from ml_metrics.measure.goodput.workers import split
from unit.measure.goodput.measuring import all_time, close, measured
from unit.measure.goodput.random_jobs import orderly_jobs
from unit.measure.goodput.traces import custom, in_time, job_end, job_start, save, span, steps

Log = list[dict[str, Any]]
JOB = [*job_start(1000), *steps(0, 100, 1010), *job_end(2020)]


def moved(entries: Log, seconds: float, *, drift: float = 0.0) -> Log:
    """The entries as a worker records them whose clock is ahead."""

    def by_its_clock(key: str, value: Any) -> Any:
        is_time = "time" in key and isinstance(value, float)
        return value + seconds + (value - 1000) * drift if is_time else value

    return [{key: by_its_clock(key, value) for key, value in entry.items()} for entry in entries]


def of(host: str, entries: Log, pid: int = 7) -> Log:
    return [{**entry, "host": host, "pid": pid} for entry in entries]


def in_turns(*logs: Log) -> Log:
    """The entries of several logs, one of each in turn."""
    longest = max(map(len, logs))
    return [log[at] for at in range(longest) for log in logs if at < len(log)]


def laid_out(folder: Path, layout: str, one: Log, other: Log) -> GoodputReport:
    """The report of two logs in one of the ways in which two workers may write them."""
    if layout == "files":
        return written(folder, a=one, b=other)
    if layout == "one file":
        return written(folder, a=in_turns(one, other))
    return written(folder, a=in_time([*one, *other]) if layout == "in order of time" else [*one, *other])


def written(folder: Path, **files: Log) -> GoodputReport:
    folder.mkdir(parents=True, exist_ok=True)
    for name, entries in files.items():
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"goodput{name and '.' + name}.jsonl").write_text(text)
    return measure(str(folder), until=None)


def same_figures(one: GoodputReport, other: GoodputReport) -> bool:
    figures = [
        [report.total_seconds, report.productive_seconds, report.disruptions, *report.badput_seconds.values()]
        for report in (one, other)
    ]
    return figures[0] == pytest.approx(figures[1], abs=1e-5)


@pytest.mark.parametrize("ahead", [0.0, 0.5, 4.0, -9.0, 15.0, 300.0, -900.0])
@pytest.mark.parametrize("layout", ["files", "one file", "in order of time", "one after the other"])
def test_a_second_worker_changes_no_figure(tmp_path: Path, ahead: float, layout: str) -> None:
    alone = measured(JOB)
    found = laid_out(tmp_path, layout, of("a", JOB), of("b", moved(JOB, ahead)))
    assert same_figures(found, written(tmp_path / "alone", a=JOB))
    assert found.goodput_percent == pytest.approx(alone.goodput_percent)
    assert found.clock.startswith("2 workers recorded the job; its times are by the clock of a")
    assert bool(found.warnings) == (abs(ahead) >= 1)


@pytest.mark.parametrize("ahead", [0.5, 4.0, 15.0, 300.0, -15.0])
@pytest.mark.parametrize("layout", ["files", "one file", "in order of time", "one after the other"])
def test_workers_of_an_older_log_are_told_apart(tmp_path: Path, ahead: float, layout: str) -> None:
    found = laid_out(tmp_path, layout, JOB, moved(JOB, ahead))
    assert same_figures(found, written(tmp_path / "alone", a=JOB))
    assert any("their steps show which entry is whose" in one for one in found.warnings) == (layout != "files")


def test_events_of_two_workers_without_names(tmp_path: Path) -> None:
    job = in_time([*job_start(1000), *span("tpu_init", 1001, 1005), *steps(0, 50, 1010), *job_end(2020),
                   *custom("eval", 1523, 1529), *steps(51, 100, 1540)])  # fmt: skip
    assert same_figures(written(tmp_path / "two", a=in_turns(job, moved(job, 3.0))), written(tmp_path / "one", a=job))


def test_restarts_of_both_workers(tmp_path: Path) -> None:
    job = [*job_start(1000), *steps(0, 60, 1010), *job_start(1800), *steps(50, 100, 1810), *job_end(2320)]
    alone = written(tmp_path / "alone", a=job)
    assert alone.disruptions == 1
    for ahead in (0.5, 15.0, 700.0):
        cut = next(at for at, entry in enumerate(job) if entry.get("job_start_time") == 1800)
        other = moved(job, ahead)
        one = of("a", job[:cut], 1), of("a", job[cut:], 2), of("b", other[:cut], 1), of("b", other[cut:], 2)
        files = {f"20260102T03040500000{number}-{log[0]['host']}-{number}": log for number, log in enumerate(one)}
        assert same_figures(written(tmp_path / f"files-{ahead}", **files), alone)
        unnamed = {
            name: [{key: value for key, value in entry.items() if key not in {"host", "pid"}} for entry in log]
            for name, log in files.items()
        }
        assert same_figures(written(tmp_path / f"older-{ahead}", **unnamed), alone)
        together = in_turns([*one[0], *one[1]], [*one[2], *one[3]])
        assert same_figures(written(tmp_path / f"one-{ahead}", a=together), alone)


def test_the_next_life_of_a_worker_may_be_another_process_or_host(tmp_path: Path) -> None:
    job = [*job_start(1000), *steps(0, 60, 1010), *job_start(1630), *steps(50, 100, 1640), *job_end(2150)]
    cut = next(at for at, entry in enumerate(job) if entry.get("job_start_time") == 1630)
    alone = written(tmp_path / "alone", a=job)
    lives = (("a", 1, "a", 2), ("a", 1, "a", 1), ("a", 1, "b", 1))
    for number, (host, pid, next_host, next_pid) in enumerate(lives):
        first, second = of(host, job[:cut], pid), of(next_host, job[cut:], next_pid)
        for found in (
            written(tmp_path / f"one-{number}", a=[*first, *second]),
            written(tmp_path / f"two-{number}", a=first, b=second),
        ):
            assert same_figures(found, alone)
            assert (found.clock, found.warnings) == ("", ())


def test_a_next_host_whose_clock_is_behind(tmp_path: Path) -> None:
    job = [*job_start(1000), *steps(0, 60, 1010), *job_start(1630), *steps(50, 100, 1640), *job_end(2150)]
    cut = next(at for at, entry in enumerate(job) if entry.get("job_start_time") == 1630)
    found = written(tmp_path, a=of("a", job[:cut]), b=of("b", moved(job[cut:], -40.0)))
    assert (found.disruptions, found.clock) == (1, "")


def test_only_the_first_host_records_the_job(tmp_path: Path) -> None:
    first = of("z-host", [*job_start(1000), *span("tpu_init", 1001, 1005), *steps(0, 100, 1010), *job_end(2020)])
    others = {f"h{number}": of(f"h{number}", moved(steps(0, 100, 1010), 3.0 * number)) for number in range(1, 9)}
    found = written(tmp_path, z=first, **others)
    assert "by the clock of z-host" in found.clock
    assert (found.ended, found.total_seconds, found.productive_seconds) == (True, 1020, 1010)


def test_what_the_clock_lacks_is_taken_from_others(tmp_path: Path) -> None:
    controller = of("c", in_time([*job_start(1100), *steps(0, 2, 1110), *save(50, 1615, 4.0), *job_end(2120)]))
    trainer = of("t", steps(0, 100, 1010))
    found = written(tmp_path, c=controller, t=trainer)
    assert "by the clock of t" in found.clock
    assert (found.ended, found.total_seconds) == (True, 1020)
    assert (found.productive_seconds, found.badput_seconds["unproductive_checkpoint_save_time"]) == (1006, 4)


def test_a_worker_that_joins_late_and_one_that_leaves(tmp_path: Path) -> None:
    early = of("early", [*job_start(1000), *steps(0, 70, 1010)])
    late = of("late", moved([*job_start(1300), *steps(31, 100, 1320), *job_end(2020)], 25.0))
    found = written(tmp_path, early=early, late=late)
    assert (found.disruptions, found.last_step, found.ended) == (0, 100, True)
    assert (found.total_seconds, found.productive_seconds) == (1020, 1010)
    assert all_time(found) == pytest.approx(found.total_seconds)


def test_a_clock_that_drifts(tmp_path: Path) -> None:
    found = written(tmp_path, a=of("a", JOB), b=of("b", moved(JOB, 1.0, drift=0.01)))
    assert same_figures(found, written(tmp_path / "alone", a=JOB))
    trainer, controller = of("t", steps(0, 100, 1010)), of("c", moved(JOB, 5.0, drift=1e-4))
    seldom = [one for one in controller if one.get("step_count", 0) in {0, 20, 40}]
    found = written(tmp_path / "c", c=seldom, t=trainer)
    assert "by the clock of t" in found.clock
    assert (found.total_seconds, found.productive_seconds) == pytest.approx((1020, 1010), abs=0.07)


def test_a_job_that_is_started_again_and_again_is_of_one_worker(tmp_path: Path) -> None:
    entries, time = [], 1000.0
    for life in range(12):
        entries += [*steps(life * 3, life * 3 + 6, time)]
        time += 100
    found = written(tmp_path, a=entries)
    assert (found.disruptions, found.clock) == (11, "")


def test_a_clock_that_was_set_back_is_of_one_worker(tmp_path: Path) -> None:
    entries = [*job_start(1000), *steps(0, 60, 1010), *job_start(1200), *steps(50, 100, 1210), *job_end(1720)]
    found = written(tmp_path, a=entries)
    assert found.clock == ""
    assert "the clock went back" in found.warnings[0]
    for pids in ((1, 1), (1, 2)):
        named = [*of("a", entries[:62], pids[0]), *of("a", entries[62:], pids[1])]
        assert same_figures(written(tmp_path / str(pids[1]), a=named), found)


def test_clocks_that_are_set_back_at_each_restart_make_no_second_worker(tmp_path: Path) -> None:
    entries, time = [], 1000.0
    for first, last, back in ((0, 20, 150.0), (15, 40, 180.0), (30, 50, 90.0), (48, 70, 0.0)):
        entries += [*job_start(time), *steps(first, last, time + 5)]
        time += 5 + 10 * (last - first + 1) - back
    assert written(tmp_path, a=entries).clock == ""


@pytest.mark.parametrize("ahead", [-1000.0, -850.0, 700.0, 1020.0, 1e6])
def test_a_clock_that_is_off_by_as_much_as_the_job_took(ahead: float) -> None:
    """Times alone would say that the workers ran one after the other. They wrote in turns."""
    found = measured(in_turns(of("a", JOB), of("b", moved(JOB, ahead))))
    assert same_figures(found, measured(JOB))
    assert found.clock.startswith("2 workers recorded the job")


@settings(max_examples=80, deadline=None)
@given(orderly_jobs(), st.sampled_from([0.0, 0.25, 3.0, 17.0, -40.0]), st.integers(2, 4))
def test_workers_with_names_change_no_figure(entries: Log, ahead: float, count: int) -> None:
    alone = measured(entries)
    together = in_turns(*(of(f"h{number}", moved(entries, number * ahead)) for number in range(count)))
    found = measured(together)
    assert found.found == alone.found
    if found.start is None or not found.clock:
        return
    assert close(found.productive_seconds, alone.productive_seconds)
    assert close(found.total_seconds, alone.total_seconds)
    assert found.disruptions == alone.disruptions


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("skews", [(0.0, 15.0), (0.0, -15.0), (0.0, 4.0), (0.0, 15.0, -40.0)])
def test_workers_without_names_that_take_turns_in_any_order(skews: tuple[float, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    writer = np.concatenate([rng.permutation(len(skews)) for _ in range(40)])
    step = np.repeat(np.arange(40), len(skews))
    time = 10.0 * step + np.array(skews)[writer] + rng.normal(0, 0.05, len(step))
    parts = split(np.full(len(step), Kind.STEP, np.uint8), time, step.astype(np.int64))
    assert sorted(map(len, parts)) == [40] * len(skews)
    assert all(len(set(writer[part])) == 1 for part in parts)
