"""From the files of a goodput log to entries.

A log of a million steps is read in under a second: pyarrow parses blocks of lines into columns. A block that is not
as regular as that, or is damaged, is read line by line, and each line that cannot be used is counted.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from ml_metrics import storage
from ml_metrics.goodput.entries import LATEST, NAME_FIELDS, TIME_FIELDS, Entries, EntriesBuilder, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

BLOCK_BYTES = 4 << 20
PIECE_BYTES = 1 << 16
"""So much is read of a compressed file at once, and lost where it is damaged."""
LONGEST_LINE = 1 << 20
"""A line that is longer than this is no entry."""


@dataclass(frozen=True, slots=True)
class Log:
    """What was read: the entries of each file that belongs to the log, and how many files those were."""

    entries: Entries
    files: int


def is_log(file: storage.File) -> bool:
    """Whether a file of a run folder belongs to its goodput log: `goodput.jsonl`, or a part `goodput.*.jsonl`."""
    name = file.name.rpartition("/")[2]
    return name.startswith("goodput.") and name.removesuffix(".gz").endswith(".jsonl")


def read_log(files: Sequence[storage.File], job_name: str | None = None) -> Log:
    """Read the files of one log, in the order of their names."""
    builder = EntriesBuilder(job_name)
    for file in sorted(files, key=lambda file: file.name):
        log_file = LogFile(file.path)
        for block in log_file.new_blocks(builder):
            add_block(block, builder, file.path)
        for block in log_file.last_line(builder):
            add_block(block, builder, file.path)
    folders = {file.name.rpartition("/")[0] for file in files}
    if len(folders) > 1:
        builder.warn(f"the files of the log lie in {len(folders)} folders; they were read as one log")
    return Log(builder.build(), len(files))


def log_files(place: str) -> list[storage.File]:
    """The files of the log at a place: the place itself if it is a file, else those in the folder."""
    if storage.exists(place):
        return [storage.File(place, place.rpartition("/")[2], 0)]
    return [file for file in storage.list_files(place) if is_log(file)]


def add_block(block: bytes, builder: EntriesBuilder, path: str) -> None:
    """Add whole lines of a file."""
    if not _add_columns(block, builder):
        builder.add(_payloads(block, builder, path))


@dataclass(slots=True)
class LogFile:
    """One file of a log, and how much of it was read. Memory is bounded, whatever the file holds."""

    path: str
    _at: int = 0
    """Everything before it was read, or given up."""
    _rest: bytes = b""
    """What follows there: a line without its end."""
    _in_long_line: bool = False

    def new_blocks(self, builder: EntriesBuilder) -> Iterator[bytes]:
        """The whole lines that were not read yet, in blocks."""
        with storage.open_read(self.path) as raw:
            source = _uncompressed(raw)
            size = BLOCK_BYTES if source is raw else PIECE_BYTES
            self._rest = b""
            try:
                source.seek(self._at)
                while data := source.read(size):
                    yield from self._whole_lines(data, builder)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                builder.warn(f"{self.path}: is damaged, and was read up to there: {error}")

    def last_line(self, builder: EntriesBuilder) -> Iterator[bytes]:
        """What is left at the end. The half line that a killed writer left there is told, and left out."""
        if not self._rest.strip():
            return
        try:
            json.loads(self._rest)
        except (ValueError, RecursionError):
            builder.warn(f"{self.path}: ends in half a line, which was left out")
        else:
            yield self._rest + b"\n"

    def _whole_lines(self, data: bytes, builder: EntriesBuilder) -> Iterator[bytes]:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if end:
            begin = data.index(b"\n") + 1 if self._in_long_line else 0
            self._in_long_line = False
            if begin < end:
                yield data[begin:end]
            self._at += end
        self._rest = data[end:]
        if len(self._rest) > LONGEST_LINE:
            if not self._in_long_line:
                builder.unusable(f"{self.path}: a line of more than {LONGEST_LINE} bytes")
            self._in_long_line = True
            self._at += len(self._rest)
            self._rest = b""


def _uncompressed(raw: IO[bytes]) -> IO[bytes]:
    """The file, or what is in it if it is compressed with gzip."""
    magic = raw.read(2)
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if magic == b"\x1f\x8b" else raw


def _payloads(block: bytes, builder: EntriesBuilder, path: str) -> Iterator[Any]:
    for line in block.split(b"\n"):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            builder.unusable(f"{path}: {line[:80]!r} is not JSON")


def _add_columns(block: bytes, builder: EntriesBuilder) -> bool:
    """Add a block by columns; False, with nothing added, if it is not regular enough for that."""
    try:
        import pyarrow as pa
        from pyarrow import json as pyarrow_json
    except ImportError:  # in a training image, where a monitor follows its own log
        return False
    plain = pa.schema([("job_name", pa.string()), ("step_count", pa.int64()), ("step_start_time", pa.float64())])
    try:
        table = pyarrow_json.read_json(
            pa.BufferReader(block),
            read_options=pyarrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pyarrow_json.ParseOptions(explicit_schema=plain, newlines_in_values=False),
        )
    except pa.ArrowInvalid:
        return False
    if table.num_rows != block.count(b"\n") or not _is_regular(table):
        return False
    kind, time = _kinds_and_times(table)
    if not (np.abs(time) <= LATEST).all():
        return False
    rows = _rows_of_this_job(table, builder)
    builder.add_columns(kind[rows], time[rows], _numbers(table, kind, builder)[rows])
    return True


def _is_regular(table: pa.Table) -> bool:
    """Whether every field that matters holds what it should, and every row is about one thing."""
    import pyarrow as pa

    names = set(NAME_FIELDS.values())
    told = 0
    for field in table.schema:
        if field.name in TIME_FIELDS:
            column = table[field.name]
            if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
                return False
            told += table.num_rows - column.null_count
        elif (field.name in names and not pa.types.is_string(field.type)) or field.name == "event_type":
            return False
    if "elastic_slice_counts_timestamp" in table.column_names:
        return False
    steps = table["step_start_time"]
    return bool(told == table.num_rows and steps.null_count == table["step_count"].null_count)


def _rows_of_this_job(table: pa.Table, builder: EntriesBuilder) -> NDArray[np.bool_] | slice:
    """Which rows are wanted."""
    import pyarrow.compute as pc

    wanted: NDArray[np.bool_] | None = None
    counts = {item["values"]: item["counts"] for item in pc.value_counts(table["job_name"]).to_pylist()}
    for name, count in counts.items():
        if not builder.is_of_this_job(name, count):
            wanted = np.ones(table.num_rows, np.bool_) if wanted is None else wanted
            wanted[_where(pc.equal(table["job_name"], name))] = False
    return slice(None) if wanted is None else wanted


def _kinds_and_times(table: pa.Table) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    import pyarrow as pa

    kind = np.zeros(table.num_rows, np.uint8)
    time = np.empty(table.num_rows, np.float64)
    for name in table.column_names:
        if name in TIME_FIELDS and table[name].null_count < table.num_rows:
            told = _where(table[name].is_valid())
            kind[told] = TIME_FIELDS[name]
            time[told] = _values(table[name], np.int64 if pa.types.is_integer(table[name].type) else np.float64)
    return kind, time


def _where(mask: pa.ChunkedArray) -> NDArray[Any]:
    """Where a mask is true."""
    import pyarrow.compute as pc

    return _values(pc.indices_nonzero(mask), np.uint64)


def _values(column: pa.ChunkedArray | pa.Array, dtype: type[np.generic]) -> NDArray[Any]:
    """The values that are not null. Between its arrays and numpy's, pyarrow itself imports pandas: 0.2 s."""
    import pyarrow as pa

    known = column.drop_null()
    chunks = known.chunks if isinstance(known, pa.ChunkedArray) else [known]
    size = np.dtype(dtype).itemsize
    parts = [np.frombuffer(one.buffers()[1], dtype, len(one), one.offset * size) for one in chunks if len(one)]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _numbers(table: pa.Table, kind: NDArray[np.uint8], builder: EntriesBuilder) -> NDArray[np.int64]:
    """The steps, and the numbers of the names of events."""
    number = np.zeros(table.num_rows, np.int64)
    number[kind == Kind.STEP] = _values(table["step_count"], np.int64)
    for named, name in NAME_FIELDS.items():
        of_kind = kind == named
        if of_kind.any():
            number[of_kind] = [builder.name(str(text or "unknown")) for text in _texts(table, name, of_kind)]
    return number


def _texts(table: pa.Table, name: str, rows: NDArray[np.bool_]) -> list[str | None]:
    import pyarrow as pa

    if name not in table.column_names:
        return [None] * int(rows.sum())
    at = np.flatnonzero(rows).astype(np.int64)
    wanted = pa.Array.from_buffers(pa.int64(), len(at), [None, pa.py_buffer(at)])
    texts: list[str | None] = table[name].take(wanted).to_pylist()
    return texts
