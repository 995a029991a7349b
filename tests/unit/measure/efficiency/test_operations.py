"""Traces of operations: incomplete and hostile ones, their order, and made-up jobs of known stragglers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics import MlMetricsError
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.measure.efficiency import Explanation, explain, read_trace, stragglers
from ml_metrics.measure.efficiency.stragglers import Operation, order_of, own_durations, step_seconds
from unit.measure.efficiency.traces import REDUCE, UPDATE, Job


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


@pytest.mark.parametrize(
    ("kind", "instead", "words"),
    [
        ("grads-reduce-scatter", "new", "unknown type: new"),
        ("forward-send", "", "no other side"),
        ("optimizer", "", "no optimizer"),
    ],
)
def test_operations_that_are_not_those_of_a_step(tmp_path: Path, kind: str, instead: str, words: str) -> None:
    table = [{**row, "optype": instead} if row["optype"] == kind else row for row in rows()]
    with pytest.raises(UnreadableInputError, match=words):
        order_of(read_trace(written(tmp_path, [row for row in table if row["optype"]])))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"step,rank\n1,2\n"])
def test_files_that_are_no_trace(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trace.parquet").write_bytes(content)
    with pytest.raises(UnreadableInputError, match="is not a Parquet file"):
        read_trace(str(tmp_path / "trace.parquet"))


@pytest.mark.parametrize(
    ("columns", "missing"),
    [(["step", "optype"], "dp_rank, duration, gmc"), (stragglers.COLUMNS[:4], "duration, gmc, mc, optype")],
)
def test_other_columns(tmp_path: Path, columns: list[str], missing: str) -> None:
    with pytest.raises(UnreadableInputError, match=f"has no column {missing}"):
        read_trace(written(tmp_path, pa.table({name: ["a"] for name in columns})))


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


USUAL = 0.5


def explained(tmp_path: Path, seconds: Callable[..., float], **sizes: int) -> Explanation:
    job = Job(**{"stages": 2, "ranks": 4, "batches": 4, "steps": 3, **sizes}, seconds=seconds)
    return explain(read_trace(job.write(tmp_path / "trace.parquet")))


def test_one_worker_by_hand(tmp_path: Path) -> None:
    """Rank 1 takes 2 s forward, rank 0 takes 1 s, so that a usual forward takes 1.5 s; backward takes 1 s."""
    rest = 1 + 2 * REDUCE + UPDATE
    found = explained(
        tmp_path, lambda _step, _stage, rank, _batch, forward: 2.0 if forward and rank else 1.0,
        stages=1, ranks=2, batches=1,
    )  # fmt: skip
    assert found.replayed_seconds == pytest.approx(2 + rest)
    assert found.ideal_seconds == pytest.approx(1.5 + rest)
    assert found.slowdown == pytest.approx((2 + rest) / (1.5 + rest))
    assert (found.slowest, found.slowest_workers, found.workers) == ((1,), pytest.approx(1), 2)
    assert found.by_data_rank == pytest.approx({0: 1.0, 1: found.slowdown})
    assert found.causes == ("slow workers: rank 1",)


def test_without_stragglers(tmp_path: Path) -> None:
    found = explained(tmp_path, lambda *_: USUAL)
    assert found.slowdown == pytest.approx(1)
    assert found.recorded_seconds == pytest.approx(found.replayed_seconds)
    assert (found.slowest_workers, found.last_stage, found.causes) == (0, 0, ())


def test_a_slow_worker(tmp_path: Path) -> None:
    found = explained(tmp_path, lambda _step, stage, rank, *_: USUAL * (2.5 if (stage, rank) == (0, 3) else 1), ranks=8)
    assert found.slowdown > 1.5
    assert found.slowest == (3,)
    assert found.slowest_workers == pytest.approx(1, abs=0.05)
    assert found.last_stage < 0.2
    assert found.causes == ("slow workers: rank 3",)


def test_a_long_last_stage(tmp_path: Path) -> None:
    found = explained(tmp_path, lambda _step, stage, *_: USUAL * (1.6 if stage == 3 else 1), stages=4, ranks=2)
    assert found.slowdown > 1.1
    assert found.last_stage > 0.9
    assert found.slowest_workers < 0.3
    assert found.causes == ("a long last stage",)
    assert max(found.by_stage, key=lambda stage: found.by_stage[stage]) == 3


def test_lengths_of_sequences(tmp_path: Path) -> None:
    """Some microbatches are longer, on any rank: neither a worker nor a stage explains that."""

    def seconds(step: int, _stage: int, rank: int, batch: int, forward: bool) -> float:
        return USUAL * (1 + Random(f"{step} {rank} {batch}").random()) * (1 if forward else 2)

    found = explained(tmp_path, seconds, ranks=8, stages=1, batches=4, steps=8)
    assert found.slowdown > 1.05
    assert found.correlation == pytest.approx(1)
    assert found.slowest_workers < 0.5
    assert [cause.partition(":")[0] for cause in found.causes] == ["lengths of sequences"]


@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32 - 1)
)  # stages, ranks, batches, seed
@settings(max_examples=40, deadline=None)
def test_a_replay_repeats_the_trace(
    tmp_path_factory: pytest.TempPathFactory, stages: int, ranks: int, batches: int, seed: int
) -> None:
    """With the recorded durations every step takes as long as recorded, whatever they are; no share is undefined."""
    random = Random(seed)
    job = Job(stages, ranks, batches, 2, lambda *_: random.choice([0.01, 0.5, 3.0]))
    trace = read_trace(job.write(tmp_path_factory.mktemp("trace") / "trace.parquet"))
    order = order_of(trace)
    replayed = step_seconds(trace, order, own_durations(trace, order))
    assert replayed == pytest.approx(trace.end.max(axis=(0, 2)))
    found = explain(trace)
    assert found.slowdown > 0
    assert np.isfinite([*found.by_data_rank.values(), *found.by_stage.values(), *found.by_type.values()]).all()
    assert np.isfinite([found.slowest_workers, found.last_stage]).all()


def test_gradients_that_are_reduced_while_others_are_computed(tmp_path: Path) -> None:
    """By hand: the first chunk's gradients are reduced during the second backward computation, and delay nothing."""
    spans = {
        ("params-all-gather", 0, 0): (0.0, 0.1), ("params-all-gather", 1, 1): (0.1, 0.3),
        ("forward-compute", 0, 0): (0.1, 1.1), ("forward-compute", 1, 1): (1.1, 2.1),
        ("backward-compute", 0, 1): (2.1, 3.1), ("grads-reduce-scatter", 0, 1): (3.1, 3.6),
        ("backward-compute", 1, 0): (3.1, 5.1), ("grads-reduce-scatter", 1, 0): (5.1, 5.6), ("gc", 0, -1): (5.1, 5.2),
        ("layernorm-grads-all-reduce", 0, -1): (5.6, 5.7), ("separate-grads-all-reduce", 0, -1): (5.7, 5.8),
        ("optimizer-clip-main-grad", 0, -1): (5.8, 5.9), ("optimizer", 0, -1): (5.9, 6.0),
    }  # fmt: skip
    rows = [
        {
            "dp_rank": rank, "stage": 0, "rank": rank, "step": 1, "optype": kind, "start_ts": start,
            "duration": end - start, "seq_id": number, "mc": chunk, "gmc": chunk,
        }
        for rank in range(2)
        for (kind, number, chunk), (start, end) in spans.items()
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "trace.parquet")
    trace = read_trace(str(tmp_path / "trace.parquet"))
    order = order_of(trace)
    own = own_durations(trace, order)
    assert step_seconds(trace, order, own) == pytest.approx([6.0])
    first = trace.operations.index(Operation("grads-reduce-scatter", 0, 0))
    own[first] += 1.5  # now it ends when the last backward computation does
    assert step_seconds(trace, order, own) == pytest.approx([6.0])
    own[first] += 1.0
    assert step_seconds(trace, order, own) == pytest.approx([7.0])
