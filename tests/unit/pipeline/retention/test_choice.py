"""Which runs are kept, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import ConfigError
from ml_metrics.core.model import Run
from ml_metrics.core.settings import Settings
from ml_metrics.pipeline import Ages, Needed, StoredRun, choose
from ml_metrics.pipeline.retention import MIN_UNFINISHED
from ml_metrics.warehouse import Incident

NOW = datetime(2026, 6, 1, tzinfo=UTC)
AGES = Ages(timedelta(days=30), timedelta(days=180))
NOTHING = Needed({})


def run(name: str, days: float, *, passed: bool = True) -> StoredRun:
    identity = Run("t", "t", name, "local")
    return StoredRun("t", identity.key, identity, NOW - timedelta(days=days), is_finished=True, has_passed=passed)


def kept(*runs: StoredRun, ages: Ages = AGES, needed: Needed = NOTHING) -> list[str]:
    return [choice.kept for choice in choose(runs, ages, needed, NOW)]


def test_runs_are_kept_by_age_and_by_how_they_ended() -> None:
    newest = run("newest", 1)
    assert kept(newest, run("a", 29), run("b", 31)) == ["newest good run", "for 30 days", ""]
    assert kept(newest, run("a", 179, passed=False), run("b", 181, passed=False)) == [
        "newest good run", "for 180 days", ""
    ]  # fmt: skip


def test_the_newest_good_run_of_a_test_stays_however_old_it_is() -> None:
    trial, failed = replace(run("trial", 100), is_trial=True), run("failed", 200, passed=False)
    assert kept(run("old", 3000), run("good", 2000), trial, failed) == ["", "newest good run", "", ""]


def test_the_age_and_the_choice_among_equals_are_exact() -> None:
    newest = run("newest", 1)
    assert kept(newest, run("a", 30), run("b", 180, passed=False)) == ["newest good run", "", ""]
    twins = sorted((run("one", 500), run("other", 500)), key=lambda one: one.key)
    assert kept(*twins) == ["", "newest good run"]
    assert kept(*reversed(twins)) == ["newest good run", ""]


def test_without_settings_everything_is_kept_for_ever() -> None:
    assert kept(run("newest", 1), run("old", 30_000), ages=Ages()) == ["newest good run", "for ever"]
    assert not Ages.of(Settings()).are_set
    only_passed = Ages(timedelta(days=1))
    assert kept(run("newest", 0), run("a", 2), run("b", 2, passed=False), ages=only_passed)[1:] == ["", "for ever"]


def test_runs_of_an_open_incident_and_runs_whose_message_waits_are_kept() -> None:
    opened, before, told, after = (
        run(name, days, passed=False) for name, days in zip("obta", (400, 401, 402, 399), strict=True)
    )
    incident = Incident("t", "m", opened.ended_at or NOW, "", (), (opened.key, told.key))
    assert kept(opened, before, told, after, needed=Needed({"t": incident})) == [
        "open incident", "", "open incident", "open incident"
    ]  # fmt: skip
    at_once, just_before = run("at once", 400, passed=False), run("just before", 400.0001, passed=False)
    assert kept(at_once, just_before, needed=Needed({"t": incident})) == ["open incident", ""]
    assert kept(opened, before, needed=Needed({}, frozenset({before.key}))) == ["", "a message waits"]
    assert kept(opened, needed=Needed({"another": incident})) == [""]


def test_a_run_in_progress_is_kept_also_if_the_ages_are_short() -> None:
    going = replace(run("going", 89), is_finished=False, has_passed=False)
    ages = Ages(timedelta(days=1), timedelta(days=1))
    assert kept(going, ages=ages) == ["not finished"]
    assert kept(replace(going, ended_at=NOW - MIN_UNFINISHED), ages=ages) == [""]
    assert kept(replace(going, ended_at=None), ages=ages) == ["its end is unknown"]


def test_what_is_not_of_this_deployment_is_kept() -> None:
    assert kept(replace(run("other", 9999), problem="it is of another")) == ["it is of another"]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "30 days", "٣", "99999999"])
def test_an_age_is_a_whole_number_of_days(text: str) -> None:
    with pytest.raises(ConfigError, match=r"keep_runs_days: should be a whole number of days"):
        Ages.of(Settings(keep_runs_days=text))


RUNS = st.lists(
    st.builds(
        lambda days, passed, finished, trial: replace(
            run(str(days), days, passed=passed and finished), is_finished=finished, is_trial=trial
        ),
        st.integers(-10, 1000), st.booleans(), st.booleans(), st.booleans(),
    ),
    max_size=8, unique_by=lambda one: one.key,
)  # fmt: skip


@given(RUNS, st.integers(1, 400), st.integers(1, 400))
def test_whatever_the_ages_a_good_run_stays_and_longer_ages_keep_more(
    runs: list[StoredRun], passed: int, failed: int
) -> None:
    ages = Ages(timedelta(days=passed), timedelta(days=failed))
    chosen = choose(runs, ages, NOTHING, NOW)
    good = [one for one in runs if one.has_passed and not one.is_trial]
    left = {choice.run.key for choice in chosen if choice.kept}
    assert not good or max(good, key=lambda one: one.ended_at or NOW).key in left
    longer = Ages(timedelta(days=passed + 1), timedelta(days=failed + 1))
    assert left <= {choice.run.key for choice in choose(runs, longer, NOTHING, NOW) if choice.kept}
