"""Reading traces of operations: incomplete steps, hostile files, and the order of operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_metrics import MlMetricsError
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.measure.efficiency import read_trace, stragglers
from ml_metrics.measure.efficiency.stragglers import Operation, order_of
from unit.measure.efficiency.traces import Job


def rows(**sizes: int) -> list[dict[str, Any]]:
    job = Job(**{"stages": 2, "ranks": 2, "batches": 2, "steps": 3, **sizes}, seconds=lambda *_: 1.0)
    found: list[dict[str, Any]] = job.table().to_pylist()
    return found


def written(tmp_path: Path, table: list[dict[str, Any]] | pa.Table) -> str:
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.Table.from_pylist(table) if isinstance(table, list) else table, path)
    return str(path)


def test_a_trace(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, rows()))
    assert (trace.stages, trace.data_ranks, trace.steps.tolist(), trace.left_out) == (2, 2, [7, 8, 9], 0)
    assert Operation("forward-compute", 1, 0) in trace.operations
    assert trace.rank.tolist() == [[0, 1], [2, 3]]
    assert (trace.start >= 0).all()
    assert (trace.start < 100).all()


def test_rows_in_any_order(tmp_path: Path) -> None:
    forwards, backwards = read_trace(written(tmp_path, rows())), read_trace(written(tmp_path, rows()[::-1]))
    assert forwards.operations == backwards.operations
    assert (forwards.end == backwards.end).all()


def test_incomplete_steps_are_left_out(tmp_path: Path) -> None:
    table = rows(steps=4)
    lost = next(index for index, row in enumerate(table) if row["step"] == 8 and row["dp_rank"] == 1)
    twice = next(row for row in table if row["step"] == 9)
    trace = read_trace(written(tmp_path, [*table[:lost], *table[lost + 1 :], twice]))
    assert (trace.steps.tolist(), trace.left_out) == ([7, 10], 2)


def test_steps_with_other_operations_are_left_out(tmp_path: Path) -> None:
    longer = [{**row, "step": 100} for row in rows(batches=3, steps=1)]
    trace = read_trace(written(tmp_path, rows() + longer))
    assert (trace.steps.tolist(), trace.left_out) == ([7, 8, 9], 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"duration": float("nan")}, "no valid time"),
        ({"duration": -1.0}, "no valid time"),
        ({"start_ts": float("inf")}, "no valid time"),
        ({"start_ts": 1e300}, "no valid time"),
        ({"dp_rank": 7}, "dp_rank has 3 numbers from 0 to 7"),
        ({"stage": -1}, "stage has 3 numbers from -1 to 1"),
        ({"duration": None}, "1 empty cells"),
        ({"optype": "x" * 10}, "no step has every operation"),
    ],
)
def test_bad_rows(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    table = rows(steps=1)
    path = written(tmp_path, [{**table[0], **change}, *table[1:]])
    with pytest.raises(UnreadableInputError, match=words) as caught:
        read_trace(path)
    assert str(caught.value).startswith(path)


def test_unknown_types_of_operation(tmp_path: Path) -> None:
    table = [{**row, "optype": row["optype"].replace("grads-reduce-scatter", "new")} for row in rows()]
    with pytest.raises(UnreadableInputError, match="unknown type: new"):
        order_of(read_trace(written(tmp_path, table)))


def test_a_transfer_without_its_other_side(tmp_path: Path) -> None:
    table = [row for row in rows() if row["optype"] != "forward-send"]
    with pytest.raises(UnreadableInputError, match="no other side"):
        order_of(read_trace(written(tmp_path, table)))


def test_without_an_optimizer(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="no optimizer"):
        order_of(read_trace(written(tmp_path, [row for row in rows() if row["optype"] != "optimizer"])))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"step,rank\n1,2\n"])
def test_files_that_are_no_trace(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trace.parquet").write_bytes(content)
    with pytest.raises(UnreadableInputError, match="is not a Parquet file"):
        read_trace(str(tmp_path / "trace.parquet"))


def test_other_columns(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="no column dp_rank, duration, gmc"):
        read_trace(written(tmp_path, pa.table({"step": [1], "optype": ["a"]})))


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_ROWS", 10), ("MAX_OPERATIONS", 3), ("MAX_CELLS", 5), ("MAX_BYTES", 100)]
)
def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(stragglers, limit, value)
    with pytest.raises(MlMetricsError):
        read_trace(written(tmp_path, rows()))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        read_trace(str(tmp_path / "none.parquet"))
