from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.airflow import warehouse
from ml_metrics.alerts.message import MessageKind, Report
from ml_metrics.alerts.metric import Streak, streak_of
from ml_metrics.alerts.problems import problems_of
from ml_metrics.alerts.report import report_of
from ml_metrics.core.model import JobStatus
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder
from simulated_runs import GOOD, TEST, SimulatedRun, failed, good, run_of, simulate, with_test


def test_a_streak_ends_with_this_run() -> None:
    assert streak_of("this", []) == Streak("this", "", 1)
    assert streak_of("this", [("a", False)]) == Streak("this", "a", 1)
    assert streak_of("this", [("a", True), ("b", False), ("c", True), ("d", True)]) == Streak("c", "b", 3)
    assert streak_of("this", [("a", True), ("b", True)]) == Streak("a", "", 3)


@given(st.lists(st.booleans(), max_size=30))
def test_every_run_of_a_streak_failed_and_the_one_before_passed(broken: list[bool]) -> None:
    runs = [(str(number), each) for number, each in enumerate(broken)]
    streak = streak_of("this", runs)
    tail = broken[len(broken) - (streak.length - 1) :] if streak.length > 1 else []
    assert all(tail)
    assert streak.last_passed == ("" if streak.length > len(broken) else str(len(broken) - streak.length))


def report(number: int, day: SimulatedRun, folder: RunFolder) -> Report:
    with warehouse() as open_warehouse:
        sentences = problems_of(RunState(folder)).urgent
        return report_of(
            day.test,
            run_of(number),
            RunState(folder),
            MessageKind.BROKEN,
            sentences,
            warehouse=open_warehouse,
            dashboard_url="http://x",
        )


def suspects(*days: SimulatedRun) -> tuple[str, ...]:
    """What the last of some runs suspects: where to look first, and the other suspects."""
    folders = [simulate(number, day) for number, day in enumerate(days, start=1)]
    return looks(report(len(days), days[-1], folders[-1]))


def looks(report: Report) -> tuple[str, ...]:
    return tuple(filter(None, (report.first, *report.suspects)))


BAD = good("bad", accuracy_final=0.5)
OTHER_IMAGE = replace(BAD, image="gcr.io/my-project/mnist@sha256:bbbb")


def test_the_changed_image_of_the_first_failed_run_is_named() -> None:
    (sentence,) = suspects(good(), good(), OTHER_IMAGE, OTHER_IMAGE)
    assert sentence.startswith(
        f"Look at run {run_of(3).key[:8]} of 2026-01-04 03:05, the first of 2 bad ones in a row; "
    )
    assert f"between it and the last good one, run {run_of(2).key[:8]} of 2026-01-03 03:05, this changed: " in sentence
    assert sentence.endswith("image digest: gcr.io/my-project/mnist@sha256:aaaa → gcr.io/my-project/mnist@sha256:bbbb.")


def test_changed_keys_of_the_test_file_are_named_without_secrets() -> None:
    before = with_test(good(), env={"TOKEN": "hunter1"}, timeout="1h")
    after = with_test(BAD, env={"TOKEN": "hunter2"}, timeout="2h")
    (sentence,) = suspects(before, after)
    assert "test file env (values not shown)" in sentence
    assert "test file timeout: 3600.0 → 7200.0" in sentence
    assert "hunter" not in sentence


def test_changed_parameters_are_named() -> None:
    for number, (day, epochs) in enumerate(((good(), 10), (BAD, 1)), start=1):
        folder = simulate(number, day)
        folder.write("run", {**(folder.read("run") or {}), "params": {"train_epochs": epochs}})
    (sentence,) = looks(report(2, BAD, folder))
    assert sentence.endswith("this changed: parameter train_epochs: 10 → 1.")


def test_two_metrics_that_failed_together_share_a_sentence() -> None:
    bad = good("bad", accuracy_final=0.5, throughput_final=float("nan"))
    (sentence,) = suspects(good(), bad)
    assert sentence.startswith("This run is the first bad one; between it and the last good one, run ")
    assert "nothing that is recorded changed" in sentence
    assert sentence.endswith("The same holds for accuracy_final.")


def test_problems_that_started_at_different_times_are_told_apart() -> None:
    worse = good("worse", accuracy_final=0.5, throughput_final=float("nan"))
    first, other = suspects(good(), BAD, worse)
    assert first.startswith("This run is the first bad one; ")
    assert other.startswith("accuracy_final: failed in 2 runs in a row, first in run ")


def test_a_failed_job_is_compared_with_the_last_successful_one() -> None:
    crash = failed(JobStatus.FAILURE, "OOMKilled")
    (sentence,) = suspects(good(), crash, replace(crash, image="other@sha256:cccc"))
    assert sentence.startswith("Set a memory limit")
    assert "Look at run " in sentence
    assert ", the first of 2 bad ones in a row; " in sentence
    assert "nothing that is recorded changed" in sentence


def test_a_test_that_never_passed() -> None:
    (sentence,) = suspects(BAD, BAD)
    assert sentence.endswith("; no earlier run is known to be good.")


def test_a_removed_or_damaged_folder_is_ignored() -> None:
    first = simulate(1, good())
    Path(first.document_path("workload")).write_text("{ torn")
    (sentence,) = suspects_after(BAD)
    assert "nothing that is recorded changed" in sentence
    Path(first.document_path("run")).unlink()
    (sentence,) = suspects_after(BAD)
    assert "the last good one, run" in sentence


def suspects_after(day: SimulatedRun) -> tuple[str, ...]:
    return looks(report(2, day, simulate(2, day)))


def test_a_level_that_changed_within_bounds_is_named() -> None:
    days = [good(accuracy_final=0.99 + day / 10_000) for day in range(8)]
    slipped = [good(accuracy_final=0.965 + day / 10_000) for day in range(6)]
    sentence = suspects(*days, *slipped, good("bad", accuracy_final=0.9))
    assert sentence[0].startswith("This run is the first bad one")
    assert sentence[1].startswith("accuracy_final: the level fell from 0.99035 to 0.9653 (-2.53 %)")

    slow = [good(throughput_final=800 - day) for day in range(6)]
    broken = good("bad", throughput_final=float("nan"))
    _, drift = suspects(*[good(throughput_final=1000 + day) for day in range(8)], *slow, broken)
    assert drift.startswith("throughput_final: the level fell from 1003.5 to 797.296 (-20.5 %)")
    assert f"first in run {run_of(9).key} of 2026-01-10 03:05" in drift


def test_a_passing_run_has_no_suspects() -> None:
    assert suspects(good(), good()) == ()
    assert TEST.regression_test_config.metric_success_conditions.keys() <= GOOD.keys()
