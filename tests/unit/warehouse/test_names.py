"""Whatever a run names its metrics, texts and tags, its rows are stored, on each engine."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import Metric, Outcome, Run, TagCurve
from ml_metrics.core.values import storable_name
from ml_metrics.measure.histories import PastRun
from ml_metrics.warehouse import import_runs, record_of, run_record, stored_runs, with_verdicts
from ml_metrics.warehouse.imports import CONTENT, SOURCE
from unit.warehouse.records import MONDAY, TEST, metric, record, run_of, verdict, workload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ml_metrics.warehouse import RunRecord, Warehouse

ODD_NAMES = (
    "", " ", "a", "a ", "A", "a\x00", "a\ufffd", "a\\x00", "a\ud800", "a?", "a\\ud800", "a\n", "a\\n", "\u00e9",
    "e\u0301", "\u00df", "ss", "\u0130", "i\u0307", "\ufb01", "fi", "\u3000", "\U0001f600", "\U000e0001", "%s", ":run",
    "'; --", "x" * 9_000, "x" * 8_999 + "y", "\ud800" * 3_000, "\x00" * 9_000, "(no name)",
)  # fmt: skip
"""Names that an engine, a normal form or a language might take for one another, or not store at all."""
CURVE = TagCurve("tag", (1, 2), (0.5, 0.25))
ANY_NAME = st.sampled_from(ODD_NAMES) | st.text(st.characters(exclude_categories=()), max_size=8)


def run_with(names: Collection[str], number: int = 0) -> RunRecord:
    """Return a run that names everything so."""
    return run_record(
        run_of(number),
        workload(number),
        [metric(name, float(place)) for place, name in enumerate(names)],
        [verdict(name, Outcome.PASS, 1.0) for name in names],
        {name: str(place) for place, name in enumerate(names)},
        curves={name: replace(CURVE, tag=name) for name in names},
    )


def check_stored(warehouse: Warehouse, run: RunRecord, names: Collection[str]) -> None:
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        first.setdefault(storable_name(name), place)
    stored = warehouse.metrics.of_run(run.key)
    assert {row.metric: (row.value, row.outcome) for row in stored} == {
        name: (float(place), Outcome.PASS) for name, place in first.items()
    }
    assert len(stored) == len(first)
    assert warehouse.runs.metadata(run.key) == {name: str(place) for name, place in first.items()}
    tags = {storable_name(name, 1_900) for name in names}
    assert {curve.tag for curve, _ in warehouse.curves.of_run(run.job.place)} == tags


def test_odd_names_are_stored_on_each_engine(warehouse: Warehouse) -> None:
    run = run_with(ODD_NAMES)
    for _ in range(2):
        warehouse.load(run)
        check_stored(warehouse, run, ODD_NAMES)
    (found,) = warehouse.metrics.named_of_run(run.job.place, ["a\\x00"]).values()
    assert found.value == float(ODD_NAMES.index("a\x00"))
    warehouse.metrics.named_of_run(run.job.place, list(ODD_NAMES))  # any name can be asked for


def test_runs_have_ids_of_any_length(warehouse: Warehouse) -> None:
    letters = "".join(chr(0x4E00 + number) for number in range(9_000))
    made = run_record(
        Run(f"test {letters}", f"dag {letters}\x00", f"run \ud800{letters}", "local"), workload(),
        [metric(letters, 1.0)], [], {letters: letters}, test_type="\x00", accelerator="\ud800" )  # fmt: skip
    warehouse.load(made)
    (found,) = warehouse.runs.newest(made.job.test_name)
    assert (found.uuid, found.dag_id, found.run_id) == (made.key, made.job.dag_id, made.job.run_id)
    assert [row.test for row in warehouse.metrics.of_run(made.key)] == [made.job.test_name]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(names=st.lists(ANY_NAME, unique=True, min_size=2, max_size=4))
def test_any_names_are_stored(warehouse: Warehouse, names: list[str]) -> None:
    run = run_with(names)
    warehouse.load(run)
    check_stored(warehouse, run, names)


def test_a_warning_names_what_was_merged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run_with(["a\n", "a\\n", "b"])
    assert {one.getMessage() for one in caplog.records} == {
        f"run {run_of().key} of {TEST}: a\\n stands for several names, of which the first counts"
    }
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        run_with(["a\n", "b"])
    assert not caplog.records


def test_whatever_made_a_record_its_names_are_storable_and_each_is_there_once() -> None:
    run = record(0, {"a": 1.0}, metadata={"k": "v"})
    (row,) = run.metrics
    rows = (replace(row, metric="b\x00"), replace(row, metric="b\\x00", value=2.0), row)
    texts = {"k\x00": "1", "k\\x00": "2"}
    made = replace(run, metrics=rows, metadata=texts, curves={"": ("{}", None), "(no name)": ("[]", None)})
    assert [(one.metric, one.value) for one in made.metrics] == [("b\\x00", 1.0), ("a", 1.0)]
    assert (made.metadata, made.curves) == ({"k\\x00": "1"}, {"(no name)": ("{}", None)})
    judged = with_verdicts(made, [verdict("b\x00", Outcome.FAIL, 1.0)])
    assert {one.metric: one.outcome for one in judged.metrics} == {"b\\x00": Outcome.FAIL, "a": None}


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
def test_a_history_may_have_columns_of_any_name(opener: Callable[[], Warehouse]) -> None:
    names = (SOURCE, CONTENT, *ODD_NAMES)
    metrics = tuple(Metric(name, 1.0, name, "final") for name in names)
    past = PastRun("run\x00" * 400, "series", MONDAY, metrics, "a file", metadata=dict.fromkeys(names, "theirs"))
    warehouse, run = opener(), record_of(past, TEST, "csv", "local")
    *_, done = import_runs(warehouse, [run])
    assert done.runs == 1
    texts = warehouse.runs.metadata(run.key)
    assert (texts[SOURCE], texts["a"]) == ("csv", "theirs")
    *_, done = import_runs(warehouse, [record_of(past, TEST, "csv", "local")])
    assert (done.runs, done.there) == (0, 1)
    assert stored_runs(warehouse, TEST, {run.key: MONDAY})[0].rows()["metadata_history"]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
def test_what_people_say_is_stored_whatever_they_type(warehouse: Warehouse) -> None:
    said = "half \ud800, nul \x00"
    warehouse.load(record(0, {"a": 1.0}))
    warehouse.quarantines.set(TEST, until=MONDAY, reason=said, by=said, at=MONDAY)
    assert warehouse.quarantines.newest()[TEST].reason == "half ?, nul \ufffd"
    assert warehouse.acceptances.add(run_of().key, "a", reason=said, by=said)
    assert warehouse.incidents.report(TEST, "key", fingerprint=said, reasons=[said], at=MONDAY)
    assert warehouse.incidents.all_open()[TEST].fingerprint == "half ?, nul \ufffd"
