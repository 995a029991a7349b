"""The removal of old rows changes no verdict: a run is judged alike whether or not, and whenever, rows were removed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Verdict
from ml_metrics.judge import Judgement, history_needs, judge_run
from ml_metrics.warehouse import OldRows, Warehouse, known_test, open_warehouse, run_record
from ml_metrics.warehouse.old_rows import GOOD_RUNS
from unit.judge.cases import condition
from unit.judge.test_invariants import rules
from unit.warehouse.records import MONDAY, TEST, run_of, workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ml_metrics.warehouse import RunRecord

OTHER = "other-test"
LEVEL = {"comparison": "less", "success_threshold": {"change_point": {}}}
BEST = {"comparison": "less", "success_threshold": {"percent_difference": 5}, "against": "best"}
VALUES = st.sampled_from([None, 1.0, 1.0, 1.0, 1.01, 1.06, 2.0])
OUTCOMES = st.sampled_from([*Outcome, Outcome.PASS, Outcome.PASS, Outcome.PASS])
PAST = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["loss", "rare"]), st.tuples(VALUES, OUTCOMES)),
        st.sampled_from([*JobStatus, JobStatus.SUCCESS, JobStatus.SUCCESS, JobStatus.SUCCESS]),
    ),
    min_size=20,
    max_size=40,
)
"""What each run of the past measured, and how it ended."""
LATER = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), st.integers(0, 50)),
        st.tuples(st.just("judge"), st.dictionaries(st.sampled_from(["loss", "rare"]), st.sampled_from([1.0, 1.06]))),
        st.tuples(st.just("judge again"), st.integers(0, 50)),
    ),
    min_size=2,
    max_size=5,
)
"""What happens then: rows are removed, a run is judged, or one of the past is run again."""


def definition(conditions: Mapping[str, Any], test: str = TEST) -> TestDefinition:
    config = {"metric_success_conditions": dict(conditions)}
    return TestDefinition.model_validate(
        {"name": test, "image": "i", "command": ["c"], "owner": "o", "regression_test_config": config}
    )


def stored(day: int, test: str, measured: Mapping[str, tuple[float | None, Outcome]], status: JobStatus) -> RunRecord:
    """Return a run of the past with any verdicts."""
    verdicts = [Verdict(name, outcome, value, None, "") for name, (value, outcome) in measured.items()]
    metrics = [Metric(name, value, name, "final") for name, (value, _) in measured.items() if value is not None]
    named = {"test_type": "", "accelerator": "", "framework_version": ""}
    return run_record(run_of(day, test), workload(day, status), metrics, verdicts, {}, **named)


def judged(warehouse: Warehouse, test: TestDefinition, run: Run, day: float, values: Mapping[str, float]) -> Judgement:
    """Judge a run and store its rows, as the tasks of a run do."""
    config, ended = test.regression_test_config, MONDAY + timedelta(days=day)
    metrics = [Metric(name, value, name, "final") for name, value in values.items()]
    needs = history_needs(config, test.name)
    names = [metric.name for metric in metrics]
    judgement = judge_run(
        config,
        metrics,
        warehouse.metrics.history(needs, exclude=run.key, before=ended, metrics=names),
        status=JobStatus.SUCCESS,
        run_key=run.key,
        test=test.name,
        now=ended,
        acceptances=warehouse.acceptances.of_history(needs),
    )
    warehouse.load(run_record(run, workload(day), metrics, judgement.verdicts, {}))
    return judgement


def remove(warehouse: Warehouse, day: float) -> int:
    return sum(OldRows(warehouse.database, MONDAY + timedelta(days=day)).remove())


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Warehouse, Warehouse]]:
    """Two warehouses with the same runs. Rows are removed from the second alone."""
    with ExitStack() as stack:
        addresses = (f"sqlite:///{tmp_path}/{name}.db" for name in ("whole", "pruned"))
        whole, pruned = (stack.enter_context(open_warehouse(address)) for address in addresses)
        yield whole, pruned


COMPARED = {**BEST, "window": 3, "compare_to": OTHER}


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules().filter(lambda rule: "window" in rule), st.booleans(), PAST, LATER, st.integers(0, 40))
def test_no_verdict_depends_on_removals(
    both: tuple[Warehouse, Warehouse],
    rule: dict[str, Any],
    compares: bool,
    past: list[tuple[dict[str, tuple[float | None, Outcome]], JobStatus]],
    later: list[tuple[str, Any]],
    accepted: int,
) -> None:
    test = definition({"loss": rule, **({"rare": COMPARED} if compares else {})})
    records = [stored(day, name, *run) for day, run in enumerate(past) for name in (TEST, OTHER)]
    for warehouse in both:
        warehouse.ensure_schema()
        for table in ("job_history", "metric_history", "acceptances", "alerts", "known_tests"):
            warehouse.database.change(f"DELETE FROM {table}")
        warehouse.load_all(records)
        warehouse.acceptances.add(run_of(accepted).key, "loss", reason="", by="", at=MONDAY + timedelta(days=60))
    _, pruned = both
    pruned.known_tests.replace({TEST: known_test(test)}, 0)
    for day, (event, what) in enumerate([*later, ("judge", {"loss": 1.06, "rare": 1.06})], 50):
        if event == "remove":
            remove(pruned, what)
            continue
        run, values = (run_of(day), what) if event == "judge" else (run_of(what), {"loss": 1.0})
        one, other = (judged(warehouse, test, run, day, values) for warehouse in both)
        assert one == other


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "bigquery"], indirect=True)
@pytest.mark.parametrize("rule", [LEVEL, BEST, {**LEVEL, "window": 150}])
def test_an_open_incident_keeps_its_reference(opener: Any, rule: dict[str, Any]) -> None:
    """A value of 6 % more fails after two years of failures as on the first day."""
    warehouse, test = opener(), definition({"loss": rule})
    warehouse.known_tests.replace({TEST: known_test(test)}, 0)
    runs = 250
    records = []
    for day in range(runs):
        made = run_record(
            run_of(day), workload(day), [Metric("loss", 1.0 + day % 3 / 1000 if day < 120 else 1.06, "loss", "final")],
            [], {}, verdict="pass" if day < 120 else "fail"
        )  # fmt: skip
        outcome = Outcome.PASS if day < 120 else Outcome.FAIL
        records.append(replace(made, metrics=tuple(replace(one, outcome=outcome) for one in made.metrics)))
    warehouse.load_all(records)
    remove(warehouse, runs)
    judgement = judged(warehouse, test, run_of(runs), runs, {"loss": 1.06})
    assert [verdict.outcome for verdict in judgement.verdicts] == [Outcome.FAIL]


def test_removals_ask_the_conditions_of_each_test(both: tuple[Warehouse, Warehouse]) -> None:
    """What is kept are the newest values of each metric, of tests that others compare with, and no more."""
    _, warehouse = both
    short = definition({"loss": condition({"percent_difference": 5}, "less", window=11)})
    reader = definition({"loss": condition({"percent_difference": 5}, "less", window=15, compare_to=OTHER)}, "reader")
    good, bad = (1.0, Outcome.PASS), (1.06, Outcome.FAIL)
    for name in (TEST, OTHER, "unknown"):
        measured = ({"loss": good} if day % 2 else {} for day in range(60))
        warehouse.load_all([stored(day, name, one, JobStatus.SUCCESS) for day, one in enumerate(measured)])
    failing = [stored(day, "failing", {"loss": good if day < 40 else bad}, JobStatus.SUCCESS) for day in range(60)]
    warehouse.load_all(failing)
    known = {TEST: known_test(short), OTHER: known_test(definition({}, OTHER)), "reader": known_test(reader)}
    warehouse.known_tests.replace({**known, "failing": replace(known[TEST], test="failing")}, 0)
    assert warehouse.known_tests.windows() == {TEST: 11, OTHER: 15, "reader": 15, "failing": 11}
    rows = OldRows(warehouse.database, MONDAY + timedelta(days=60))
    # one more than the window, in case that one is judged again: with the metric and without one, good and failed
    assert {one.test: one.runs for one in rows.count()} == {TEST: 60 - 24, OTHER: 60 - 32, "failing": 60 - 24}
    assert sum(rows.remove()) == 36 + 28 + 36
    assert GOOD_RUNS >= 60, "a test whose conditions are unknown keeps the longest default"
    assert rows.count() == []


def test_a_deployment_keeps_what_another_one_compares_with(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/warehouse.db"
    far = condition({"percent_difference": 5}, "less", window=20, compare_to={"deployment": "prod"})
    with open_warehouse(address, deployment="dev") as dev, open_warehouse(address, deployment="prod") as prod:
        dev.known_tests.replace({TEST: known_test(definition({"loss": far}))}, 0)
        prod.known_tests.replace({TEST: known_test(definition({}))}, 0)
        assert (dev.known_tests.windows(), prod.known_tests.windows()) == ({TEST: 20}, {TEST: 20})
        old = replace(known_test(definition({})), window=None)
        prod.known_tests.replace({TEST: old}, 1)
        assert prod.known_tests.windows() == {}, "the conditions of a test that an older version recorded are unknown"
