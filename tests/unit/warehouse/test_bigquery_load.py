"""The chain of job ids of a run: what a writer finds under an id is its own work only if nothing came after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unit.warehouse.records import TEST, contents, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.warehouse import Warehouse

pytestmark = [
    pytest.mark.parametrize("engine", ["bigquery"], indirect=True),
    pytest.mark.usefixtures("fast_retries"),
]
FIRST, SECOND = record(0, {"a": 1.0, "b": 2.0}), record(0, {"a": 3.0, "b": 4.0})
"""Two attempts of one run, with as many rows."""


def stored(warehouse: Warehouse) -> tuple[int, dict[str, float | None]]:
    return len(warehouse.runs.newest(TEST)), contents(warehouse, run_of(0).key)


def test_an_attempt_whose_rows_were_replaced_is_written_again(opener: Callable[[], Warehouse]) -> None:
    """The job of the first attempt is still known, with the same content: its rows are not."""
    for attempt in (FIRST, SECOND, FIRST, FIRST, SECOND, SECOND, FIRST):
        opener().load(attempt)
        assert stored(opener()) == (1, {row.metric: row.value for row in attempt.metrics})


@pytest.mark.parametrize("table", ["job_history", "metric_history"])
def test_rows_that_somebody_removed_are_written_again(opener: Callable[[], Warehouse], table: str) -> None:
    warehouse = opener()
    warehouse.load(FIRST)
    warehouse.database.change(f"DELETE FROM {table} WHERE uuid = :run", run=FIRST.key)
    assert stored(warehouse) != (1, {"a": 1.0, "b": 2.0})
    for _ in range(2):
        opener().load(FIRST)
        assert stored(warehouse) == (1, {"a": 1.0, "b": 2.0})


def test_a_writer_that_lost_the_answer_finds_its_own_job(
    opener: Callable[[], Warehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written a second time: the job under the next id does not exist."""
    warehouse = opener()
    warehouse.load(FIRST)
    client, ids = warehouse.database.store.client, []
    query = client.query
    monkeypatch.setattr(client, "query", lambda *args, **more: ids.append(more.get("job_id")) or query(*args, **more))
    opener().load(FIRST)
    written = [one for one in ids if one]
    assert [one.rpartition("_")[2] for one in written] == ["0"], "one request, which is refused as a conflict"
    assert stored(warehouse) == (1, {"a": 1.0, "b": 2.0})
