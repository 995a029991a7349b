"""The known tests of a deployment, on every engine."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ml_metrics.values import short_hash
from ml_metrics.warehouse import KnownState, KnownTest, known_tests
from ml_metrics.warehouse.bigquery_load import MAX_REQUEST_BYTES
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


def test_nothing_is_known_at_first(warehouse: Warehouse) -> None:
    assert warehouse.known_tests.read() == KnownState()


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
