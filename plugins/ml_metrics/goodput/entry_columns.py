"""Adding a block of a goodput log by columns: pyarrow reads a million steps in under a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.goodput.entries import NAME_FIELDS, TIME_FIELDS, EntriesBuilder, Kind
from ml_metrics.goodput.entry_parts import LATEST
from ml_metrics.json_lines import parse_table

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


MOST_JOBS = 100
"""A block with entries of more jobs is read line by line."""
_TYPES = {
    "job_name": "string",
    "step_count": "int64",
    "step_start_time": "double",
    "host": "string",
    "pid": "int64",
}
"""The types of the fields that a step has."""
_EVENT_TYPES = {
    **dict.fromkeys(TIME_FIELDS, "double"),
    **dict.fromkeys(NAME_FIELDS.values(), "string"),
    "event_type": "string",
}
"""The types of the fields that other events have."""


def add_columns(block: bytes, builder: EntriesBuilder) -> bool:
    """Add a block. Return False, with nothing added, if its lines are not regular enough."""
    try:
        import pyarrow  # noqa: F401, ICN001  (whether it exists)
    except ImportError:  # a training image need not have it, and a monitor reads the log there
        return False
    table = _parsed(block, builder)
    if table is None or not _is_regular(table):
        return False
    kind, time = _kinds_and_times(table)
    if not (np.abs(time) <= LATEST).all():
        return False
    rows = _rows_of_this_job(table, builder)
    if rows is None:
        return False
    builder.add_columns(kind[rows], time[rows], _numbers(table, kind, builder)[rows], _writers(table, builder)[rows])
    return True


def _parsed(block: bytes, builder: EntriesBuilder) -> pa.Table | None:
    """Return a block as a table of known fields."""
    types = {name: kind for name, kind in _EVENT_TYPES.items() if name in builder.known_fields} | _TYPES
    table = parse_table(block, _schema(types))
    if table is None:
        nesting = builder.allowance.limits.json_nesting
        table = parse_table(block, _schema(_EVENT_TYPES | _TYPES), ignored_nesting=nesting)
        if table is not None:
            builder.known_fields.update(name for name in table.column_names if table[name].null_count < len(table))
    return table


def _schema(types: dict[str, str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])


def _is_regular(table: pa.Table) -> bool:
    """Whether every row has exactly one time, and is no report of Orbax."""
    present = {name for name in table.column_names if table[name].null_count < table.num_rows}
    if present & {"event_type", "elastic_slice_counts_timestamp"}:
        return False
    times = sum(table.num_rows - table[name].null_count for name in present if name in TIME_FIELDS)
    steps = table["step_start_time"]
    return bool(times == table.num_rows and steps.null_count == table["step_count"].null_count)


def _rows_of_this_job(table: pa.Table, builder: EntriesBuilder) -> NDArray[np.bool_] | slice | None:
    """Return the rows of the builder's job, or None if there are too many jobs to look for each."""
    import pyarrow.compute as pc

    wanted: NDArray[np.bool_] | None = None
    counts = {item["values"]: item["counts"] for item in pc.value_counts(table["job_name"]).to_pylist()}
    if len(counts) > MOST_JOBS:
        return None
    for name, count in counts.items():
        if not builder.is_of_this_job(name, count):
            wanted = np.ones(table.num_rows, np.bool_) if wanted is None else wanted
            wanted[_where(pc.equal(table["job_name"], name))] = False
    return slice(None) if wanted is None else wanted


def _writers(table: pa.Table, builder: EntriesBuilder) -> NDArray[np.int32]:
    """Return the number of each row's writer."""
    import pyarrow.compute as pc

    hosts, pids = table["host"], table["pid"]
    if hosts.null_count == table.num_rows:
        return np.full(table.num_rows, builder.writer(None, None), np.int32)
    complete = not hosts.null_count + pids.null_count
    if complete and pc.count_distinct(hosts).as_py() == pc.count_distinct(pids).as_py() == 1:
        return np.full(table.num_rows, builder.writer(hosts[0].as_py(), pids[0].as_py()), np.int32)
    rows = zip(hosts.to_pylist(), pids.to_pylist(), strict=True)
    return np.array([builder.writer(host, pid) for host, pid in rows], np.int32)


def _kinds_and_times(table: pa.Table) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    import pyarrow as pa

    kind = np.zeros(table.num_rows, np.uint8)
    time = np.empty(table.num_rows, np.float64)
    for name in table.column_names:
        if name in TIME_FIELDS and table[name].null_count < table.num_rows:
            rows = _where(table[name].is_valid())
            kind[rows] = TIME_FIELDS[name]
            time[rows] = _values(table[name], np.int64 if pa.types.is_integer(table[name].type) else np.float64)
    return kind, time


def _where(mask: pa.ChunkedArray) -> NDArray[Any]:
    """Return the positions at which a mask is true."""
    import pyarrow.compute as pc

    return _values(pc.indices_nonzero(mask), np.uint64)


def _values(column: pa.ChunkedArray | pa.Array, dtype: type[np.generic]) -> NDArray[Any]:
    """Return the values that are not null. pyarrow's own conversion to numpy would import pandas, which takes 0.2 s."""
    import pyarrow as pa

    present = column.drop_null()
    chunks = present.chunks if isinstance(present, pa.ChunkedArray) else [present]
    size = np.dtype(dtype).itemsize
    parts = [np.frombuffer(one.buffers()[1], dtype, len(one), one.offset * size) for one in chunks if len(one)]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _numbers(table: pa.Table, kind: NDArray[np.uint8], builder: EntriesBuilder) -> NDArray[np.int64]:
    """Return the step of each row, or the number of its event's name."""
    number = np.zeros(table.num_rows, np.int64)
    number[kind == Kind.STEP] = _values(table["step_count"], np.int64)
    for named_kind, field in NAME_FIELDS.items():
        of_kind = kind == named_kind
        if of_kind.any():
            number[of_kind] = [builder.name(str(text or "unknown")) for text in _texts(table, field, of_kind)]
    return number


def _texts(table: pa.Table, field: str, rows: NDArray[np.bool_]) -> list[str | None]:
    import pyarrow as pa

    if field not in table.column_names:
        return [None] * int(rows.sum())
    at = np.flatnonzero(rows).astype(np.int64)
    wanted = pa.Array.from_buffers(pa.int64(), len(at), [None, pa.py_buffer(at)])
    texts: list[str | None] = table[field].take(wanted).to_pylist()
    return texts
