from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.airflow import warehouse
from ml_metrics.alerts.causes import Start
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind, Report
from ml_metrics.alerts.metric import Streak, TestHistory, streak_of
from ml_metrics.alerts.problems import problems_of
from ml_metrics.alerts.report import MAX_DETAILED_METRICS, MAX_PROBLEMS, report_of, warnings_of
from ml_metrics.config.loading import load_file
from ml_metrics.core.model import JobStatus
from ml_metrics.core.settings import Settings
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Incident
from ml_metrics.warehouse.database import Database
from simulated_runs import START, TEST, SimulatedRun, failed, good, run_of, simulate, with_test
from unit.warehouse.records import record

MANY = {f"metric-{number}": 1.0 for number in range(MAX_PROBLEMS + 1)}
CONFIG = {
    "metric_success_conditions": {"default": {"comparison": "greater", "success_threshold": {"fixed_value": 2.0}}}
}
DAY = with_test(SimulatedRun("all of them bad", MANY), regression_test_config=CONFIG)


def about(number: int, day: SimulatedRun, kind: MessageKind = MessageKind.BROKEN, **more: Any) -> Report:
    """The report about a run, of which the folder and the rows are there."""
    state = RunState(RunFolder.of(run_of(number), Settings.load().storage_root))
    sentences = problems_of(state).urgent if kind is MessageKind.BROKEN else {}
    how = {"dashboard_url": "https://x.example/ml-metrics", **more}
    with warehouse() as opened:
        return report_of(day.test, run_of(number), state, kind, sentences, warehouse=opened, **how)


def last_of(*days: SimulatedRun, **more: Any) -> Report:
    """The report about the last of some runs, one a day."""
    for number, day in enumerate(days, start=1):
        simulate(number, day)
    return about(len(days), days[-1], **more)


def test_a_run_that_fails_a_hundred_metrics_takes_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        simulate(number, DAY)
    queries: list[str] = []
    query = Database.query
    monkeypatch.setattr(Database, "query", lambda self, text, **more: queries.append(text) or query(self, text, **more))
    report = about(2, DAY)
    assert (len(report.problems), report.total, report.counted) == (
        MAX_PROBLEMS,
        MAX_PROBLEMS + 1,
        ("101 out of bounds",),
    )
    assert sum(problem.picture is not None for problem in report.problems) == MAX_DETAILED_METRICS
    assert all("must be above 2" in problem.sentence for problem in report.problems)
    assert len(queries) <= 2 * MAX_DETAILED_METRICS + 2, queries


@pytest.mark.parametrize("inside", [True, False])
def test_links_to_airflow_only_inside_airflow(inside: bool) -> None:
    url = "https://airflow.example/ml-metrics" if inside else "https://metrics.example"
    links = {fact.name: fact.link for fact in last_of(good(), kind=MessageKind.RECOVERED, dashboard_url=url).facts}
    run = "https://airflow.example/dags/tf-mnist-example-cpu/runs/scheduled__2026-01-02T03%3A00%3A00%2B00%3A00"
    assert links.get("tasks") == (run if inside else None)


def warnings_about(test: TestDefinition) -> list[str]:
    folder = simulate(1, with_test(good(), **test.model_dump(exclude_unset=True)))
    return list(warnings_of(test, RunState(folder)))


def test_a_subset_with_a_metric_without_condition_is_a_warning() -> None:
    own = TEST.regression_test_config.model_dump(exclude_unset=True)
    config = {**own, "metric_subset_to_alert": ["step_time_final"]}
    test = TestDefinition.model_validate({**TEST.model_dump(exclude_unset=True), "regression_test_config": config})
    assert warnings_about(test) == [
        "step_time_final: metric_subset_to_alert names it, but no condition covers it: it can never alert"
    ]


def test_warnings_of_the_test_file_are_included_if_it_still_exists(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        "name: tf-mnist-example-cpu\nimage: i\ncommand: [c]\nmetric_collection_config: {write_to_bigquery: 'True'}\n"
    )
    (test,) = load_file(path).tests
    warnings = warnings_about(test)
    assert len(warnings) == 1
    assert "write_to_bigquery" in warnings[0]
    path.write_text("name: [")
    assert warnings_about(test) == []
    path.unlink()
    assert warnings_about(test) == []


SLOW_LIMIT = {
    "metric_success_conditions": {"seconds": {"comparison": "less", "success_threshold": {"fixed_value": 104}}}
}


@pytest.mark.parametrize(("node", "explained"), [("node-3", True), ("node-1", False)])
def test_a_run_that_failed_by_its_node(node: str, explained: bool) -> None:
    """Runs on one of four nodes take 5 % longer. The same value on another node is a change."""
    usual = with_test(good(), regression_test_config=SLOW_LIMIT)
    for number in range(1, 25):
        own = f"node-{number % 4}"
        simulate(number, replace(usual, metrics={"seconds": 105.0 if own == "node-3" else 100.0}, node=own))
    broken = replace(usual, metrics={"seconds": 105.5}, node=node)
    simulate(27, broken)
    report = about(27, broken)
    found = [sentence for sentence in report.suspects if "node, not change" in sentence]
    assert len(found) == explained
    assert all(sentence.startswith("seconds: node, not change: runs on node node-3 take ") for sentence in found)


BAD = good("bad", accuracy_final=0.5, loss_final=0.3)


@pytest.mark.parametrize(
    ("recorded", "offered"),
    [(True, ["Accept the new level", "It is a regression", "Measure again", "Acknowledge"]), (False, ["Acknowledge"])],
)
def test_nothing_that_needs_earlier_values_is_offered_about_a_test_without_rows(
    recorded: bool, offered: list[str]
) -> None:
    report = last_of(with_test(BAD, metric_collection_config={"write_to_bigquery": recorded}))
    assert [button.value for button in report.buttons] == ["Open the run", *offered]


def recovery(*days: SimulatedRun, reported: tuple[str, ...], by: str | None = None) -> Report:
    """The report about the last of some runs, the second of which opened an incident."""
    keys = (run_of(2).key,)
    incident = Incident("t", "key", START, "", reported, keys, reported, acknowledged_by=by, note="a bad disk")
    return last_of(*days, kind=MessageKind.RECOVERED, incident=incident)


def test_a_recovery_says_what_was_broken_for_how_long_and_the_values_now() -> None:
    report = recovery(good(), BAD, BAD, good(), reported=("out_of_bounds:accuracy_final", "out_of_bounds:memory_final"))
    assert report.headline == "accuracy_final 0.9739, was 0.5"
    assert [fact.name for fact in report.values] == ["accuracy_final", "memory_final"]
    assert report.values[0].value == "0.9739, was 0.5, must be above 0.96"
    (sentence,) = report.sentences
    assert sentence.startswith(
        "It was broken for 2 days, in 2 runs, since 2026-01-03 03:05 UTC: accuracy_final out of "
    )
    assert [button.value for button in report.buttons] == ["Open the run", "Every run"]
    message = compose(report, [])
    assert message.subject == f"[ML Metrics] {TEST.name} recovered after 2 days: {report.headline} (+1 more)"
    assert "It was broken for 2 days" in message.reasons[0].sentence


def test_a_job_that_succeeds_again() -> None:
    report = recovery(good(), failed(JobStatus.FAILURE, "ExitCode:3"), good(), reported=("job_status:",))
    assert report.headline == "the job succeeds again"
    assert report.sentences == ("It was broken for 24 h, in 1 run, since 2026-01-03 03:05 UTC: the job failed.",)


def test_the_acknowledgement_and_a_metric_that_came_back_without_bounds() -> None:
    report = recovery(good(), good(), reported=("missing:throughput_final",), by="ada")
    assert report.headline == "throughput_final 1,000 again"
    assert report.sentences[1] == "Acknowledged by ada: a bad disk."


@given(st.lists(st.booleans(), max_size=30))
def test_every_run_of_a_streak_failed_and_the_one_before_passed(broken: list[bool]) -> None:
    runs = [(str(number), each) for number, each in enumerate(broken)]
    streak = streak_of("this", runs)
    tail = broken[len(broken) - (streak.length - 1) :] if streak.length > 1 else []
    assert all(tail)
    assert streak.last_passed == ("" if streak.length > len(broken) else str(len(broken) - streak.length))


def suspects(*days: SimulatedRun) -> tuple[str, ...]:
    """What the last of some runs suspects: where to look first, and the other suspects."""
    report = last_of(*days)
    return tuple(filter(None, (report.first, *report.suspects)))


BAD_SUSPECTS = good("bad", accuracy_final=0.5)
OTHER_IMAGE = replace(BAD_SUSPECTS, image="gcr.io/my-project/mnist@sha256:bbbb")


def test_the_changed_image_of_the_first_failed_run_is_named() -> None:
    (sentence,) = suspects(good(), good(), OTHER_IMAGE, OTHER_IMAGE)
    assert sentence.startswith(
        f"Look at run {run_of(3).key[:8]} of 2026-01-04 03:05, the first of 2 bad ones in a row; "
    )
    assert f"between it and the last good one, run {run_of(2).key[:8]} of 2026-01-03 03:05, this changed: " in sentence
    assert sentence.endswith("image_digest: gcr.io/my-project/mnist@sha256:aaaa → gcr.io/my-project/mnist@sha256:bbbb.")


def test_no_good_run_is_named_where_there_was_none() -> None:
    (sentence,) = suspects(BAD_SUSPECTS, OTHER_IMAGE)
    assert sentence == (
        f"Look at run {run_of(1).key[:8]} of 2026-01-02 03:05, the first of 2 bad ones in a row; "
        "no earlier run is known to be good."
    )


def test_changed_keys_of_the_test_file_are_named_without_secrets() -> None:
    before = with_test(good(), env={"TOKEN": "hunter1"}, timeout="1h")
    after = with_test(BAD_SUSPECTS, env={"TOKEN": "hunter2"}, timeout="2h")
    (sentence,) = suspects(before, after)
    assert "test file env (values not shown)" in sentence
    assert "test file timeout: 3600.0 → 7200.0" in sentence
    assert "hunter" not in sentence


def test_another_node_is_no_change() -> None:
    (sentence,) = suspects(replace(good(), node="node-1"), replace(BAD_SUSPECTS, node="node-2"))
    assert "nothing that is recorded changed" in sentence


def test_changed_parameters_are_named() -> None:
    (sentence,) = suspects(*(replace(day, start={"params": params}) for day, params in (
        (good(), {"train_epochs": 10}), (BAD_SUSPECTS, {"train_epochs": 1, "warmup": 5}),
    )))  # fmt: skip
    assert sentence.endswith("this changed: param.train_epochs: 10 → 1; param.warmup: none → 5.")


def test_changes_are_named_for_a_run_that_was_not_stored() -> None:
    look = suspects(good(), replace(OTHER_IMAGE, states={"load_history": "failed"}))
    assert "image_digest: gcr.io/my-project/mnist@sha256:aaaa → gcr.io/my-project/mnist@sha256:bbbb" in " ".join(look)


@pytest.mark.parametrize(
    ("earlier", "since"),
    [
        ([good()], rf"the last that passed was run {run_of(1).key[:8]} of \S+ \S+\. No recorded change in between"),
        ([], "no earlier run passed"),
    ],
    ids=["it passed", "it never passed"],
)
def test_problems_that_started_at_different_times_are_told_apart(earlier: list[SimulatedRun], since: str) -> None:
    worse = good("worse", accuracy_final=0.5, throughput_final=float("nan"))
    first, other = suspects(*earlier, BAD_SUSPECTS, worse)
    assert first.startswith("This run is the first bad one; ")
    assert re.fullmatch(rf"accuracy_final: failed in 2 runs in a row, first in run \S+ of \S+ \S+; {since}", other)


def test_a_failed_job_is_compared_with_the_last_successful_one() -> None:
    crash = failed(JobStatus.FAILURE, "OOMKilled")
    (sentence,) = suspects(good(), crash, replace(crash, image="other@sha256:cccc"))
    assert sentence.startswith("Set a memory limit")
    assert "Look at run " in sentence
    assert ", the first of 2 bad ones in a row; " in sentence
    assert "nothing that is recorded changed" in sentence


@pytest.mark.parametrize("damage", ["{ torn", None])
def test_the_folder_of_an_earlier_run_that_is_damaged_or_gone_is_ignored(damage: str | None) -> None:
    path = Path(simulate(1, good()).document_path("run"))
    path.write_text(damage or "")
    if damage is None:
        path.unlink()
    simulate(2, BAD_SUSPECTS)
    look = about(2, BAD_SUSPECTS).first
    assert "the last good one, run" in look
    assert "nothing that is recorded changed" in look


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


@pytest.mark.parametrize(("year", "since"), [(2026, " since 22 Nov"), (2025, " since 22 Nov 2025")])
def test_a_day_of_another_year_is_told_with_its_year(year: int, since: str) -> None:
    ends = {"bad": datetime(year, 11, 22, tzinfo=UTC), "newest": datetime(2026, 11, 28, tzinfo=UTC)}
    history = TestHistory(tuple(replace(record().job, uuid=key, timestamp=at) for key, at in ends.items()))
    start = Start.of(Streak("bad", "", 3), run_of(1), RunFolder("nowhere"), history)
    assert start.in_subject() == since
    for values in (("low", "x" * 41), ("x" * 41, "low")):
        assert replace(start, changes=(("param.data", *values),)).in_subject() == f"{since}; param.data changed"


LONG = f"gcr.io/my-project/mnist@sha256:{'c' * 64}"
DEEP = f"{'layer/' * 50}loss"
BOTH = good("worse", accuracy_final=0.95, **{DEEP: 9.0})
TWO = {
    "metric_success_conditions": {
        "accuracy_final": {"comparison": "greater", "success_threshold": {"fixed_value": 0.96}},
        DEEP: {"comparison": "less", "success_threshold": {"fixed_value": 1}},
    }
}
CRASH = failed(JobStatus.FAILURE, "ExitCode:3")


@pytest.mark.parametrize(
    ("days", "line"),
    [
        ((BAD_SUSPECTS,), "failed: accuracy_final 0.499, must be above 0.96"),
        ((good(), BAD_SUSPECTS), "failed: accuracy_final -48.4 % to 0.5"),
        ((good(), OTHER_IMAGE), "failed: accuracy_final -48.4 % to 0.5; image aaaa → bbbb"),
        ((good(), OTHER_IMAGE, BAD_SUSPECTS), "failed: accuracy_final -48.2 % to 0.501 since 3 Jan; image aaaa → bbbb"),
        ((good(), replace(BAD_SUSPECTS, image=LONG)), "failed: accuracy_final -48.4 % to 0.5; image aaaa → cccccccc"),
        (
            (with_test(BOTH, regression_test_config=TWO),),
            f"failed: {DEEP[:19]}…{DEEP[-20:]} 8.982, must be below 1 (+1 more)",
        ),
        ((good(), CRASH), "failed: exit code 3"),
        ((good(), CRASH, replace(CRASH, image="other@sha256:cccc")), "failed: exit code 3 since 3 Jan"),
        ((good(), CRASH, failed(JobStatus.FAILURE, "ExitCode:4")), "failed: exit code 4"),
        ((good(), failed(JobStatus.FAILURE, "OOMKilled")), "failed: out of memory (no limit, the node had none left)"),
        ((failed(JobStatus.TIMEOUT, "DeadlineExceeded"),), "failed: stopped after 4 min 1 s by its timeout"),
        ((good(), good(throughput_final=float("nan"))), "failed: throughput_final is not a finite number"),
    ],
)
def test_the_first_line_says_what_how_much_since_when_and_what_changed(
    days: tuple[SimulatedRun, ...], line: str
) -> None:
    message = compose(last_of(*days), [])
    assert message.subject == f"[ML Metrics] {TEST.name} {line}"
    assert message.text.splitlines()[0] == f"{TEST.name} {line}"
    assert line.partition(": ")[2] in message.html
    *_, footer = message.text.partition("\n--\n")
    assert [row.split()[0] for row in footer.splitlines()] == ["owner", "run", "tasks", "logs", "every"]
    assert message.key == f"{run_of(len(days)).key}-broken"
