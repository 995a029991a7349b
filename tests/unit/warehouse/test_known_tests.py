"""The known tests of a deployment, on every engine."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.values import short_hash
from ml_metrics.warehouse import KnownState, KnownTest, known_tests
from ml_metrics.warehouse.bigquery import MAX_REQUEST_BYTES
from ml_metrics.warehouse.known_tests import _packed, _tests

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.warehouse import Warehouse

NIGHTLY = KnownTest(
    "nightly",
    owner="vision",
    emails=("a@example.com", "b@example.com"),
    file="/configs/nightly.yaml",
    schedule="0 3 * * *",
    longest=4800.0,
    since=1.75e9,
    problems={"file:unreadable": "line 3: 'comand' is no key\nwith \"quotes\" and 🎉"},
    reported=("file:unreadable",),
    window=500,
    compared_with=(("", "weekly"), ("prod", "nightly")),
)
WEEKLY = KnownTest("weekly", problems={"dag:paused": "It is."}, ignored=("dag:paused",))


def test_the_known_tests_are_replaced_as_a_whole(warehouse: Warehouse) -> None:
    assert warehouse.known_tests.replace({"nightly": NIGHTLY, "weekly": WEEKLY}, 0)
    assert warehouse.known_tests.read() == KnownState(1, {"nightly": NIGHTLY, "weekly": WEEKLY})
    assert warehouse.known_tests.replace({"weekly": WEEKLY}, 1)
    assert warehouse.known_tests.read() == KnownState(2, {"weekly": WEEKLY})


def test_twenty_thousand_broken_tests_are_one_request_to_bigquery() -> None:
    broken = {
        name: replace(NIGHTLY, test=name, file=f"/configs/{name}.yaml", fingerprint=short_hash(name), problems=problems)
        for name in (f"test-{number:05}" for number in range(20_000))
        if (problems := {"file:unreadable": f"{name}.yaml, line 3: {short_hash(name)} is no key; see the docs. " * 4})
    }
    assert len(_packed(broken)) < MAX_REQUEST_BYTES
    few = dict(list(broken.items())[:10])
    assert _packed(few).startswith("[{"), "other programs read the JSON of fewer tests"
    assert _tests(_packed(few)) == few


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
def test_a_compressed_document_is_read(opener: Callable[[], Warehouse], monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = opener()
    monkeypatch.setattr(known_tests, "MAX_PLAIN", 100)
    assert warehouse.known_tests.replace({"nightly": NIGHTLY}, 0)
    ((stored,),) = warehouse.database.store.scan("known_tests", ["document"])
    assert stored.startswith("zlib:")
    assert warehouse.known_tests.read() == KnownState(1, {"nightly": NIGHTLY})


def test_of_two_passes_at_once_one_replaces(opener: Callable[[], Warehouse]) -> None:
    one, other = opener(), opener()
    assert one.known_tests.replace({"nightly": NIGHTLY}, 0)
    assert not other.known_tests.replace({"weekly": WEEKLY}, 0)
    assert one.known_tests.replace({"weekly": WEEKLY}, 1)
    assert not other.known_tests.replace({"nightly": NIGHTLY}, 1)
    assert other.known_tests.read() == KnownState(2, {"weekly": WEEKLY})


def test_a_test_in_python_has_a_row_of_its_own(warehouse: Warehouse) -> None:
    warehouse.known_tests.replace({"weekly": WEEKLY}, 0)
    assert warehouse.known_tests.register(NIGHTLY)
    assert not warehouse.known_tests.register(NIGHTLY)
    moved = KnownTest("nightly", file="/dags/other.py", in_python=True)
    assert warehouse.known_tests.register(moved)
    assert warehouse.known_tests.read() == KnownState(1, {"weekly": WEEKLY}, {"nightly": moved})
    warehouse.known_tests.forget("nightly")
    assert warehouse.known_tests.read().in_python == {}


def test_fields_of_a_later_version_are_left_out() -> None:
    assert _tests(json.dumps([{"test": "a", "colour": "red", "emails": ["x@y"]}])) == {
        "a": KnownTest("a", emails=("x@y",))
    }


def test_what_is_not_known_of_a_test() -> None:
    assert asdict(KnownTest("a")) == {
        "test": "a",
        "owner": "unowned",
        "emails": (),
        "sender": "",
        "tags": (),
        "file": "",
        "in_python": False,
        "dag_file": "",
        "schedule": "",
        "longest": 0.0,
        "recorded": True,
        "quiet_until": "",
        "fingerprint": "",
        "since": 0.0,
        "started": False,
        "problems": {},
        "reported": (),
        "ignored": (),
        "window": None,
        "compared_with": (),
    }
    assert (KnownState().version, KnownState().tests, KnownState().in_python) == (0, {}, {})


def test_a_paused_test_has_that_problem() -> None:
    assert [one.is_paused for one in (NIGHTLY, WEEKLY)] == [False, True]


@pytest.mark.parametrize(
    ("until", "is_quiet"), [("", False), ("2026-03-01", False), ("2026-03-02", True), ("2026-03-03", True)]
)
def test_a_quarantine_lasts_until_its_last_day_ends(until: str, *, is_quiet: bool) -> None:
    end = datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC)
    one = replace(NIGHTLY, quiet_until=until)
    assert one.is_quiet(end) == is_quiet
    assert one.is_quiet(end.astimezone(timezone(timedelta(hours=14)))) == is_quiet
    assert one.is_quiet(end + timedelta(seconds=1)) == (until == "2026-03-03")


def test_the_longest_baseline_of_all_that_read_a_test(opener: Callable[..., Warehouse]) -> None:
    """Tests whose conditions are unknown are left out, wherever they are listed."""
    warehouse, prod = opener(), opener(deployment="prod")
    known = {
        "a": KnownTest("a", window=0),
        "b": KnownTest("b"),
        "c": KnownTest("c", window=20, compared_with=(("", "a"), ("", "b"), ("prod", "far"), ("local", "near"))),
        "d": KnownTest("d", window=10, compared_with=(("", "a"), ("", "e"))),
        "f": KnownTest("f", window=0),
    }
    assert warehouse.known_tests.replace(known, 0)
    assert warehouse.known_tests.windows() == {"a": 20, "c": 20, "d": 10, "e": 10, "f": 0, "near": 20}
    assert prod.known_tests.windows() == {"far": 20}
    there = {"c": KnownTest("c"), "far": KnownTest("far", window=30, compared_with=(("local", "c"), ("", "b")))}
    assert prod.known_tests.replace(there, 0)
    assert warehouse.known_tests.windows() == {"a": 20, "c": 30, "d": 10, "e": 10, "f": 0, "near": 20}
    assert prod.known_tests.windows() == {"far": 30, "b": 30}


def test_the_time_of_a_row_is_that_of_its_last_change(opener: Callable[..., Warehouse]) -> None:
    warehouse, noon = opener(), datetime(2026, 3, 2, 12, tzinfo=UTC)
    known = warehouse.known_tests

    def times() -> dict[str, datetime]:
        rows = warehouse.database.query("SELECT part, timestamp FROM known_tests")
        return {row["part"]: row["timestamp"] for row in rows}

    assert known.replace({"weekly": WEEKLY}, 0, noon)
    assert known.register(NIGHTLY, noon)
    assert times() == {"watched": noon, "python:nightly": noon}
    before = datetime.now(UTC)
    assert known.replace({}, 1)
    assert not known.register(NIGHTLY)
    assert times()["watched"] >= before
    assert times()["python:nightly"] == noon
    assert known.register(WEEKLY)
    assert known.read() == KnownState(2, {}, {"nightly": NIGHTLY, "weekly": WEEKLY})


@pytest.mark.parametrize(("characters", "is_plain"), [(2_000_000, True), (2_000_001, False)])
def test_a_document_of_two_megabytes_is_still_plain(characters: int, *, is_plain: bool) -> None:
    rest = len(_packed({"a": replace(WEEKLY, test="a", file="")}))
    tests = {"a": replace(WEEKLY, test="a", file="x" * (characters - rest))}
    assert _packed(tests).startswith("[{") == is_plain
    assert _tests(_packed(tests)) == tests
