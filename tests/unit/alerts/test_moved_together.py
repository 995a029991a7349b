"""Tests that move together in a night are one incident, and a test that moves further is reported on its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from ml_metrics.alerts import hurry
from ml_metrics.alerts.causes import moved_together
from ml_metrics.alerts.mass_failures import post_updates
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.judge import Alert, Judgement
from ml_metrics.judge.judgement import AlertKind
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Warehouse, open_warehouse, run_record
from unit.alerts.many_tests import Tests

NOW = datetime.now(UTC).replace(microsecond=0)
NOISE = 0.01


class Fleet:
    """Tests with a judged step time in two zones, whose newest runs are of this night."""

    def __init__(self, root: Path, warehouse: Warehouse) -> None:
        self.tests = Tests(root, warehouse)
        self.warehouse, self.random = warehouse, Random(1)

    def night(self, slower: dict[str, float], *, days_ago: float = 0, early: float = 0, **news: str) -> None:
        """Let twenty tests run. `slower` has the factors by which some are slower: these ran `early`, in days."""
        for number in range(20):
            name = f"test-{number}"
            zone = f"us-east5-{'ab'[number % 2]}"
            metadata = {"zone": zone, "node": f"node-{number}", "api_token": "hunter2", "torch": "2.8"}
            if number % 4 == 0:
                metadata |= news
            self._load(name, slower.get(name, 1.0), metadata, days_ago + early * (name in slower))

    def _load(self, name: str, factor: float, metadata: dict[str, str], days_ago: float) -> None:
        run, ended = self.run(name, days_ago), NOW - timedelta(days=days_ago)
        value = 2.0 * factor * (1 + self.random.uniform(-NOISE, NOISE))
        verdict = self.verdict(value)
        done = Workload(JobStatus.SUCCESS, started_at=ended - timedelta(minutes=5), ended_at=ended)
        metrics = [Metric("step_time_p50", value, "step_time", "p50", unit="s", better="lower")]
        record = run_record(
            run, done, metrics, [verdict], metadata, accelerator="cpu", owner="owner", loaded_at=ended
        )  # fmt: skip
        self.warehouse.load(record)
        folder = RunFolder.of(run, str(self.tests.root))
        folder.write_workload(done)
        broken = verdict.outcome is Outcome.FAIL
        alerts = (Alert(AlertKind.OUT_OF_BOUNDS, "step_time_p50", "slower"),) if broken else ()
        folder.write("verdicts", Judgement((verdict,), alerts, passed=not broken).document())

    @staticmethod
    def run(name: str, days_ago: float = 0) -> Run:
        return Run(name, name, f"scheduled__{round(days_ago)}", "local")

    @staticmethod
    def verdict(value: float) -> Verdict:
        outcome = Outcome.FAIL if value > 2.1 else Outcome.PASS
        return Verdict(
            "step_time_p50", outcome, value, Bounds(upper=2.1), "change point", unit="s", reference=2.0,
            spread=2.0 * NOISE, baseline_points=30,
        )  # fmt: skip

    def cause_of(self, name: str) -> str:
        state = RunState(RunFolder.of(self.run(name), str(self.tests.root)))
        found = moved_together(self.run(name), state, ["out_of_bounds:step_time_p50"], self.warehouse)
        return str(found or "")

    def told(self, name: str) -> None:
        """Do what the gate of a test's run does, and its callback."""
        state = RunState(RunFolder.of(self.run(name), str(self.tests.root)))
        steps.decide(state, dict.fromkeys(steps.TASKS[:-1], "success"))
        self.tests.notify(self.run(name), state.folder, ("owner@example.com",))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db", deployment="local") as opened:
        made = Fleet(tmp_path / "runs", opened)
        made.night({}, days_ago=6)
        yield made


ZONE_A = [f"test-{number}" for number in range(0, 20, 2)]


def test_a_slow_zone_is_one_message_and_one_update(fleet: Fleet) -> None:
    fleet.night(dict.fromkeys(ZONE_A, 1.1))
    for name in ZONE_A:
        fleet.told(name)
    (first,) = fleet.tests.sent.messages
    text = " ".join(first.text.split())
    assert "Cause: moved together: zone us-east5-a." in text
    assert "10 of 10 tests with zone us-east5-a moved together, by 9" in text
    assert "of 10 others, 0 did" in text
    assert "hunter2" not in text
    (posted,) = post_updates(fleet.warehouse, fleet.tests.mail, datetime.now(UTC))
    hurry(posted, fleet.tests.mail, fleet.warehouse)
    assert fleet.tests.sent.subjects[1:] == ["9 tests failed: moved together: zone us-east5-a"]


def test_the_first_test_of_a_night_joins_those_that_show_its_cause(fleet: Fleet) -> None:
    """When the first test ended, nothing else had moved: it is told alone. The others are one update."""
    fleet.night(dict.fromkeys(ZONE_A[:1], 1.1))
    fleet.told(ZONE_A[0])
    assert "Cause" not in fleet.tests.sent.messages[0].text
    fleet.night(dict.fromkeys(ZONE_A, 1.1))
    for name in ZONE_A[1:]:
        fleet.told(name)
    assert len(fleet.tests.sent.messages) == 1
    for posted in post_updates(fleet.warehouse, fleet.tests.mail, datetime.now(UTC)):
        hurry(posted, fleet.tests.mail, fleet.warehouse)
    (update,) = fleet.tests.sent.messages[1:]
    assert update.subject.endswith("9 tests failed: moved together: zone us-east5-a")
    assert "10 in all still fail for this cause" in " ".join(update.text.split())


def test_later_runs_that_failed_or_are_of_the_test_itself_hide_no_movement(fleet: Fleet) -> None:
    fleet.night(dict.fromkeys(ZONE_A, 1.1))
    for name, status in (("test-6", JobStatus.FAILURE), ("test-4", JobStatus.SUCCESS)):
        later, ended = Run(name, name, "manual__later", "local"), Workload(status, ended_at=NOW + timedelta(minutes=1))
        fleet.warehouse.load(run_record(later, ended, [], [], {}))
    assert fleet.cause_of("test-4").startswith("10 of 10 tests with zone us-east5-a moved together")


def test_what_is_new_comes_before_what_was_always_there(fleet: Fleet) -> None:
    """Five tests of the same zone have another version since this night: the version is named, not the zone."""
    fleet.night(dict.fromkeys(ZONE_A[::2], 1.1), torch="2.9")
    assert fleet.cause_of("test-4").startswith("5 of 5 tests with new torch: 2.9 moved together")


def test_a_time_of_day_is_what_tests_share(fleet: Fleet) -> None:
    fleet.night(dict.fromkeys(["test-0", "test-3", "test-7", "test-10"], 1.1), early=8 / 24)
    hour = (NOW - timedelta(hours=8)).hour // 4 * 4
    shared = f"4 of 4 tests with time of day {hour:02}:00 to {hour + 4:02}:00 UTC moved together"
    assert fleet.cause_of("test-3").startswith(shared)


def test_a_test_that_moved_further_is_broken_by_itself(fleet: Fleet) -> None:
    fleet.night({**dict.fromkeys(ZONE_A, 1.1), "test-2": 1.6})
    assert "zone us-east5-a" in fleet.cause_of("test-4")
    assert not fleet.cause_of("test-2")


@pytest.mark.parametrize("slower", [{"test-3": 1.3}, {"test-3": 1.3, "test-4": 1.3}], ids=["one", "two"])
def test_few_tests_share_nothing(fleet: Fleet, slower: dict[str, float]) -> None:
    fleet.night(slower)
    assert not fleet.cause_of("test-3")
