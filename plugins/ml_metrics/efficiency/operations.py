"""A trace of operations: what each worker of a training job did in some of its steps, and for how long.

The format is that of ByteDance's StragglerAnalysis: a Parquet file with a row for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ml_metrics import storage
from ml_metrics.errors import UnreadableInputError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc")
MAX_BYTES = 2 << 30
MAX_ROWS = 50_000_000
MAX_OPERATIONS = 20_000
"""Different operations of one step."""
MAX_CELLS = 200_000_000
"""Steps times operations: the table from which complete steps are chosen."""
LATEST = 1e12
"""Times and durations beyond it are invalid."""


class Operation(NamedTuple):
    """An operation that every data-parallel rank performs once in each step."""

    kind: str
    """Such as `forward-compute`."""
    number: int
    """Its number among those of its kind, stage and step."""
    stage: int


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The complete steps of a trace.

    Tables have an axis for operations, one for steps and one for data-parallel ranks.
    """

    operations: tuple[Operation, ...]
    steps: NDArray[np.int64]
    rank: NDArray[np.int64]
    """The worker of each stage and data-parallel rank."""
    chunk: NDArray[np.int64]
    """The part of the stage's model that each operation belongs to, or -1."""
    global_chunk: NDArray[np.int64]
    """The same, as a number within the whole model."""
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    left_out: int
    """Steps that are incomplete, or have other operations than most."""

    @property
    def stages(self) -> int:
        """The number of pipeline stages."""
        return len(self.rank)

    @property
    def data_ranks(self) -> int:
        """The number of data-parallel ranks."""
        return int(self.rank.shape[1])


def read_trace(path: str) -> Trace:
    """Read a trace. Raises UnreadableInputError if the file is none, or has no complete step."""
    columns = _columns(path)
    try:
        return _trace(columns)
    except UnreadableInputError as error:
        raise UnreadableInputError(f"{path}: {error}") from error


def _columns(path: str) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = storage.named_file(path).read(MAX_BYTES)
    try:
        file = pq.ParquetFile(BytesIO(data), read_dictionary=["optype"])
        missing = set(COLUMNS) - set(file.schema_arrow.names)
        if missing:
            raise UnreadableInputError(
                f"{path}: is no trace of operations: it has no column {', '.join(sorted(missing))}"
            )
        if file.metadata.num_rows > MAX_ROWS:
            raise UnreadableInputError(f"{path}: has {file.metadata.num_rows:,} operations, more than {MAX_ROWS:,}")
        table = file.read(columns=list(COLUMNS))
        return {name: _column(table[name], name) for name in COLUMNS}
    except (pa.ArrowException, ValueError, OSError) as error:
        raise UnreadableInputError(f"{path}: is not a Parquet file with a trace of operations: {error}") from error


def _column(column: pa.ChunkedArray, name: str) -> Any:
    import pyarrow as pa

    if column.null_count:
        raise pa.ArrowInvalid(f"column {name} has {column.null_count:,} empty cells")
    if name == "optype":
        texts = column.cast(pa.string()).dictionary_encode().combine_chunks()
        names = [str(text) for text in texts.dictionary.to_pylist()]
        place = np.argsort(np.argsort(names))
        return sorted(names), place[texts.indices.to_numpy(zero_copy_only=False)]
    wanted = pa.float64() if name in {"start_ts", "duration"} else pa.int64()
    try:
        return column.cast(wanted).to_numpy()
    except pa.ArrowException as error:
        raise pa.ArrowInvalid(f"column {name}: {error}") from error


def _trace(columns: dict[str, Any]) -> Trace:
    """Arrange the rows by operation, step and data-parallel rank."""
    kinds, kind = columns["optype"]
    dp, stage = (_numbered(columns[name], name) for name in ("dp_rank", "stage"))
    start, duration = columns["start_ts"], columns["duration"]
    valid = (np.abs(start) <= LATEST) & (duration >= 0) & (duration <= LATEST)
    if not valid.all():
        raise UnreadableInputError(f"{int((~valid).sum()):,} operations have no valid time or duration")
    keys, first, which = np.unique(
        np.stack([stage, kind, columns["seq_id"]]), axis=1, return_index=True, return_inverse=True
    )
    which = which.reshape(-1)
    if keys.shape[1] > MAX_OPERATIONS:
        raise UnreadableInputError(f"a step has more than {MAX_OPERATIONS:,} different operations")
    steps, of_step = np.unique(columns["step"], return_inverse=True)
    data_ranks = int(dp.max()) + 1
    kept, present = _complete((of_step.reshape(-1), which, dp), (len(steps), keys.shape[1], data_ranks))
    place = np.cumsum(kept) - 1
    column = np.cumsum(present) - 1
    rows = kept[of_step]
    at = (column[which[rows]], place[of_step[rows]], dp[rows])
    shape = (int(present.sum()), int(kept.sum()), data_ranks)
    began, ended = np.empty(shape), np.empty(shape)
    began[at], ended[at] = start[rows], (start + duration)[rows]
    origin = began.min(axis=(0, 2))[None, :, None]
    ranks = np.full((int(stage.max()) + 1, data_ranks), -1, np.int64)
    ranks[stage, dp] = columns["rank"]
    named = keys[:, present]
    return Trace(
        operations=tuple(Operation(kinds[k], int(number), int(of)) for of, k, number in named.T),
        steps=steps[kept],
        rank=ranks,
        chunk=columns["mc"][first[present]],
        global_chunk=columns["gmc"][first[present]],
        start=began - origin,
        end=ended - origin,
        left_out=int((~kept).sum()),
    )


def _numbered(column: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Return ranks. Raises UnreadableInputError unless they are 0, 1, 2, ... without a gap."""
    values = np.unique(column)
    if not len(values):
        raise UnreadableInputError("the trace has no operation")
    if values[0] != 0 or values[-1] != len(values) - 1:
        raise UnreadableInputError(
            f"{name} has {len(values):,} numbers from {values[0]} to {values[-1]}: they should be 0, 1, 2, and so on"
        )
    return column


def _complete(
    cells: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]], shape: tuple[int, int, int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the steps that have the operations of most steps, each once for every rank; and these operations."""
    (step, operation, dp), (steps, operations, ranks) = cells, shape
    if steps * operations > MAX_CELLS or ranks > MAX_ROWS:
        raise UnreadableInputError(f"the trace has {steps:,} steps of {operations:,} operations, too many")
    cell = step * operations + operation
    count = np.bincount(cell, minlength=steps * operations)
    distinct = np.bincount(np.unique(np.stack([cell, dp]), axis=1)[0], minlength=steps * operations)
    table = count.reshape(steps, operations)
    whole = (((table == 0) | (table == ranks)) & (count == distinct).reshape(steps, operations)).all(axis=1)
    if not whole.any():
        raise UnreadableInputError(f"no step has every operation of all {ranks} data-parallel ranks")
    shapes, of_shape, often = np.unique(table[whole] > 0, axis=0, return_inverse=True, return_counts=True)
    usual = int(often.argmax())
    whole[np.flatnonzero(whole)[of_shape.reshape(-1) != usual]] = False
    return whole, shapes[usual]
