"""Test files that take long cost the others nothing, and cost their time once."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import ConfigError
from ml_metrics.airflow import dags
from ml_metrics.config import reading_time
from ml_metrics.config.contact import Contact, contact_in
from ml_metrics.config.jsonnet import Jsonnet
from ml_metrics.config.loading import load_test, load_tests
from ml_metrics.config.problems import ReadLaterError, TooSlowError
from ml_metrics.config.reading_time import ReadingTime
from ml_metrics.core.airflow_options import airflow_home

LOOP = "std.foldl(function(a, b) a + b + %d, std.range(1, 100000000), 0)"
SECONDS = 0.05
TEST = "image: i\ncommand: [c]\nowner: team\nname: "


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__READING_SECONDS", str(SECONDS))
    monkeypatch.setattr(reading_time, "LEAST", SECONDS / 10)
    monkeypatch.setattr(reading_time, "LAST", SECONDS / 20)
    monkeypatch.setattr(reading_time, "FREE", SECONDS / 100)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a test lets time pass: the clock of the process also counts other work of the test run."""
    monkeypatch.setattr(reading_time.time, "process_time", lambda: 0.0)


def endless(*_: object) -> None:
    while True:
        pass


def given_up(path: Path) -> str:
    """Return what is said about a file that takes for ever."""
    with pytest.raises(TooSlowError) as error, ReadingTime.of_settings(of_parse=True).of(path):
        endless()
    return str(error.value)


def is_remembered(path: Path) -> bool:
    try:
        with ReadingTime.of_settings(of_parse=True).of(path):
            return False
    except TooSlowError:
        return True


def test_a_file_that_takes_for_ever_is_given_up_and_remembered_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TEST)
    what = given_up(path)
    assert "takes too long to read; it is read again when it changes, or after " in what
    assert is_remembered(path)
    path.write_text(f"{TEST}t")
    assert not is_remembered(path)


def test_a_copy_of_anothers_file_in_a_slow_place_does_not_make_the_others_known(tmp_path: Path) -> None:
    slow, innocent = tmp_path / "slow.yaml", tmp_path / "innocent.yaml"
    slow.write_text(TEST)
    innocent.write_text(TEST)
    given_up(slow)
    assert not is_remembered(innocent)


def test_a_file_that_was_slow_is_read_again_after_as_many_hours_as_it_took_seconds(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    given_up(path)
    (entry,) = (airflow_home() / "ml_metrics" / "slow_files").iterdir()
    hours = (entry.stat().st_mtime - time.time()) / 3600
    assert SECONDS / 3 < hours < SECONDS * 5
    os.utime(entry, (0, 0))
    assert not is_remembered(path)
    assert not entry.exists()


def test_whoever_comes_first_leaves_time_for_the_others(tmp_path: Path) -> None:
    times, granted = ReadingTime.of_settings(of_parse=True), []
    for number in range(8):
        with pytest.raises(TooSlowError), times.of(tmp_path / f"{number}.yaml"):
            endless(granted.append(times.left))
    assert granted[0] < SECONDS
    assert granted[3] < granted[1] < granted[0]
    assert min(granted) > 0


def test_what_is_made_of_a_file_counts_for_it(tmp_path: Path) -> None:
    times, path = ReadingTime.of_settings(of_parse=True), tmp_path / "sweep.yaml"
    with times.of(path):
        times.waited(SECONDS)
    with pytest.raises(TooSlowError), times.of(path):
        endless()
    with times.of(tmp_path / "innocent.yaml"):
        assert times.left > 0


def used_up(times: ReadingTime, folder: Path) -> ReadingTime:
    """Return the time of a folder whose first files have used it up."""
    for number in range(2):
        with times.of(folder / f"{number}.yaml"):
            times.waited(SECONDS * 1.1)
    return times


@pytest.mark.usefixtures("still")
def test_very_many_slow_files_leave_every_other_what_a_test_needs(tmp_path: Path) -> None:
    times = used_up(ReadingTime.of_settings(of_parse=True), tmp_path)
    with times.of(tmp_path / "next.yaml"):
        assert times.left == pytest.approx(reading_time.LAST)
    with pytest.raises(TooSlowError, match="takes too long"), times.of(tmp_path / "slow.yaml"):
        endless()
    assert not is_remembered(tmp_path / "next.yaml")


@pytest.mark.usefixtures("still")
def test_what_was_read_in_time_is_made_in_time_although_others_used_it_up(tmp_path: Path) -> None:
    times, path = ReadingTime.of_settings(of_parse=True), tmp_path / "large.yaml"
    with times.of(path):
        times.waited(SECONDS / 3)
    used_up(times, tmp_path)
    with times.of(path):
        assert times.left > reading_time.LEAST / 2


@pytest.mark.parametrize(("name", "size"), [("next.jsonnet", 10), ("next.yaml", reading_time.LARGE + 1)])
def test_programs_and_large_files_are_read_later_if_the_time_is_used_up(tmp_path: Path, name: str, size: int) -> None:
    times, path = used_up(ReadingTime.of_settings(of_parse=True), tmp_path), tmp_path / name
    path.write_text("#" * size)
    with pytest.raises(ReadLaterError, match="is read in the next parse"), times.of(path):
        pass
    assert not is_remembered(path)
    with used_up(ReadingTime.of_settings(), tmp_path).of(path):
        pass  # Airflow does not wait for who only looks


@pytest.mark.usefixtures("still")
def test_files_that_take_just_less_than_each_may_are_counted(tmp_path: Path) -> None:
    times = ReadingTime.of_settings(of_parse=True)
    with times.of(tmp_path / "first.yaml"):
        first = times.left
        times.waited(reading_time.LEAST * 0.9)
    with times.of(tmp_path / "second.yaml"):
        assert times.left < first - reading_time.LEAST / 3


def test_what_airflow_will_store_counts_as_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a list is fast, storing it for each of hundreds of tests is not."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__READING_SECONDS", "10")
    (tmp_path / "large.yaml").write_text(f"{TEST}a\nparams: {{p: [{', '.join(['1'] * 500)}]}}\nsweep: {{q: [1, 2]}}")
    assert len(load_tests(tmp_path).tests) == 2
    monkeypatch.setattr(reading_time, "SECONDS_OF_VALUE", 6 / 1000)
    (problem,) = load_tests(tmp_path).problems
    assert problem.what.startswith("takes too long")


def test_outside_the_main_thread_files_are_read_without_interruption(tmp_path: Path) -> None:
    times, done = ReadingTime.of_settings(of_parse=True), []

    def read() -> None:
        with times.of(tmp_path / "t.yaml"):
            done.append(True)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert done


def test_a_home_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    airflow_home().write_text("no folder")
    given_up(tmp_path / "t.yaml")


@pytest.mark.parametrize("seconds", ["", "0", "-1", "nan", "inf", "ten"])
def test_the_setting_is_a_number_of_seconds(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__READING_SECONDS", seconds)
    if seconds:
        with pytest.raises(ConfigError, match=r"reading_seconds: .* is not a number of seconds above 0"):
            ReadingTime.of_settings()
    else:
        assert ReadingTime.of_settings().seconds == 10


def test_programs_that_loop_leave_all_others_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S5: fourteen Jsonnet files that loop, each within its own limit, took all DAGs away."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__READING_SECONDS", "2")
    monkeypatch.setattr(reading_time, "LEAST", 0.2)
    monkeypatch.setattr(reading_time, "FREE", 0.1)
    monkeypatch.setattr("ml_metrics.config.jsonnet.LEAST_SECONDS", 0.2)
    for number in range(14):
        (tmp_path / f"loop-{number:02}.jsonnet").write_text(LOOP % number)
    for name in ("aa", "mm", "zz"):
        (tmp_path / f"{name}.yaml").write_text(TEST + name)
    made = {dag.dag_id: dag for dag in dags.tests_from(str(tmp_path))}
    innocent = {name for name, dag in made.items() if "run_workload" in dag.task_ids}
    assert innocent == {"aa", "mm", "zz"}
    assert set(made) - innocent <= {f"loop-{number:02}" for number in range(14)}, "a file that waits is not invalid"
    started: list[object] = []
    monkeypatch.setattr("ml_metrics.config.jsonnet.subprocess.Popen", lambda *given, **_: started.append(given))
    known = [name for name in made if is_remembered(tmp_path / f"{name}.jsonnet")]
    assert known
    for name in known:
        assert contact_in(tmp_path / f"{name}.jsonnet", tmp_path) == Contact()
    assert not started, "a program that is known is not evaluated again"


def test_a_slow_file_does_not_hide_another_from_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__READING_SECONDS", "2")
    monkeypatch.setattr(reading_time, "LEAST", 0.2)
    slow = tmp_path / "a.yaml"
    slow.write_text(TEST)
    (tmp_path / "z.yaml").write_text(f"{TEST}a-b")
    read = reading_time.content_of
    monkeypatch.setattr(
        "ml_metrics.config.document.content_of", lambda path, root=None: endless() if path == slow else read(path, root)
    )
    assert load_test(tmp_path, "a-b").name == "a-b"
    assert [test.name for test in load_tests(tmp_path).tests] == ["a-b"]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose names begin with `slow` use up a second, and are given up."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__READING_SECONDS", "4")
    monkeypatch.setattr(reading_time, "LEAST", 10.0)  # the first DAG needs imports, for which a busy machine takes long

    def evaluate(self: Jsonnet, path: Path, _: str) -> dict[str, Any]:
        assert self.reading_time is not None
        if path.name.startswith("slow"):
            self.reading_time.waited(1.0)
            raise TooSlowError.of(path, "does not end")
        return {"name": path.stem, "image": "i", "command": ["c"], "owner": "team"}

    monkeypatch.setattr(Jsonnet, "_evaluate", evaluate)


def parsed(folder: Path) -> tuple[set[str], set[str]]:
    """Return the tests of a parse, and the DAGs that stand for invalid files."""
    made = {dag.dag_id: dag for dag in dags.tests_from(str(folder))}
    valid = {name for name, dag in made.items() if "run_workload" in dag.task_ids}
    return valid, made.keys() - valid


@pytest.mark.usefixtures("evaluated")
@pytest.mark.parametrize("slow", [1, 10, 25])
def test_no_file_is_invalid_because_others_were_slow(slow: int, tmp_path: Path) -> None:
    """It keeps its DAG until a later parse reads it, each of which is bounded and gives up some of the slow ones."""
    programs = [f"slow-{number:02}" for number in range(slow)]
    innocent = {f"zz-{number}" for number in range(6)}
    for name in (*programs, *innocent):
        (tmp_path / f"{name}.jsonnet").write_text(name)
        os.utime(tmp_path / f"{name}.jsonnet", (1, 1))
    given_up: set[str] = set()
    for _ in range(slow // 4 + 1):
        valid, invalid = parsed(tmp_path)
        assert valid in (set(), innocent)
        assert invalid <= set(programs)
        assert given_up < invalid or valid == innocent, "each parse leaves fewer slow files"
        given_up = invalid
    assert valid == innocent


@pytest.mark.usefixtures("evaluated")
def test_what_was_there_before_is_read_before_what_is_new(tmp_path: Path) -> None:
    """However many slow files somebody adds, and whatever their names are."""
    for number in range(25):
        (tmp_path / f"slow-{number:02}.jsonnet").write_text(f"new {number}")
    (tmp_path / "innocent.jsonnet").write_text("as ever")
    large = tmp_path / "large.yaml"
    large.write_text(f"{TEST}large\n# {'x' * reading_time.LARGE}")
    for path in (tmp_path / "innocent.jsonnet", large):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    valid, invalid = parsed(tmp_path)
    assert valid == {"innocent", "large"}
    assert 0 < len(invalid) < 25, "the time of a parse is bounded"
