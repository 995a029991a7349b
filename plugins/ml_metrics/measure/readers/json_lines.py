"""JSON lines: results as `{"metrics": {...}, "dimensions": {...}}`, and flat points as `{"step": 1, "loss": 2.5}`.

Results with different dimensions are sub-runs. A sub-run's name precedes the names of its metrics:
`batch=64/throughput`. Each line is read by its own shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.model import Metric, Series
from ml_metrics.measure.lines import InPieces, LinesFile, count_lines, first_lines, is_part_of, parse_lines, parse_table
from ml_metrics.measure.points import (
    FIRST_TIME,
    LAST_TIME,
    LINE,
    STEPS,
    TIMESTAMP,
    UNITS,
    FilePoints,
    PointFields,
    grouped,
    seconds_of,
    step_of,
)
from ml_metrics.measure.readers import streams
from ml_metrics.measure.source import AS_WRITTEN, Found, Request
from ml_metrics.measure.sub_runs import SubRuns
from ml_metrics.measure.text import number_in, number_of, quoted, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from ml_metrics.config.collection import JsonLines
    from ml_metrics.measure.points import Plan
    from ml_metrics.measure.sub_runs import SubRun
    from ml_metrics.store import storage


SAMPLE_LINES = 20
"""The fields of the first lines of each block are added before it is parsed."""
MAX_COLUMNS = 256
MAX_NAME = 2_000
MAX_DEPTH = 16
MIN_BYTES_OF_CELL, MAX_BYTES_OF_CELL = 3, 120
"""Lines with fewer bytes for each column have few of the columns, and with more they are mostly text. Both are parsed
faster one by one."""
TRUE, FALSE = b"1.0e00", b"0.0e00"
"""Placeholders for booleans: spelled as no program writes numbers, so that a replacement inside a text is noticed."""
PLACEHOLDERS = ("NaN", "e00")
"""A name or text that contains one of these may have been changed by a replacement."""
Types = dict[str, Any]
"""By field: the name of its type in pyarrow, or the fields of an object."""


@dataclass(slots=True)
class LineSchema:
    """The fields of one file.

    With a schema, pyarrow does not take text that looks like a time for one.
    """

    whole: Callable[[tuple[str, ...]], bool]
    """Whether whole numbers in the field with this path stay whole numbers. All others are floats."""
    fields: Types = field(default_factory=dict)
    columns: int = 0
    usable: bool = True
    """Whether pyarrow can parse the fields at all."""
    _built: pa.Schema | None = None

    def learn(self, content: dict[str, Any]) -> None:
        """Add the fields of a line."""
        self._learn(content, self.fields, ())

    def fits(self, block: bytes) -> bool:
        """Whether lines may be parsed faster by columns than one by one: not if they are mostly text."""
        cells = (self.columns or MAX_COLUMNS) * (count_lines(block) or 1)
        return self.usable and len(block) <= MAX_BYTES_OF_CELL * cells

    def parse(self, block: bytes) -> pa.Table | None:
        """Return the lines as a table, or None if they are not regular enough."""
        try:
            for _, content in parse_lines(first_lines(block, SAMPLE_LINES), lambda *_: None):
                if isinstance(content, dict):
                    self.learn(content)
            schema = self._schema()
        except ValueError:  # includes names that are not UTF-8
            return None
        cells = self.columns * count_lines(block)
        if schema is None or not MIN_BYTES_OF_CELL * cells <= len(block) <= MAX_BYTES_OF_CELL * cells:
            return None
        return parse_table(block, schema)

    def _learn(self, content: dict[str, Any], types: Types, path: tuple[str, ...]) -> None:
        for name, value in content.items():
            known, kind = types.get(name), type(value)
            here = (*path, name)
            if kind is dict:
                if not isinstance(known, dict):
                    types[name] = known = {}
                    self._built = None
                self.usable &= len(path) < MAX_DEPTH
                if self.usable:
                    self._learn(value, known, here)
                continue
            if isinstance(known, dict):  # the line will not fit, but lines of the other kind are likelier
                continue
            new = _type_of(kind, known, whole=kind is int and self.whole(here))
            if new is None:
                self.usable = False
            elif new != known:
                types[name] = new
                self.columns += known is None
                self._built = None
                self.usable &= self.columns <= MAX_COLUMNS and len(name) <= MAX_NAME

    def _schema(self) -> pa.Schema | None:
        import pyarrow as pa

        if not self.usable:
            return None
        if self._built is None:
            self._built = pa.schema(_arrow(self.fields))
        return self._built


def _type_of(kind: type, known: str | None, *, whole: bool) -> str | None:
    """Return the type of a field after another value of this kind, or None if the kind is not supported."""
    if kind is bool:
        return "bool_" if known in {None, "bool_"} else known
    if kind is type(None) and known == "string":
        return known
    if whole and known != "float64":
        return "int64"
    return {str: "string", int: "float64", float: "float64", type(None): "float64"}.get(kind)


def without_nulls(block: bytes) -> bytes | None:
    """Return a block with NaN in place of null, or None if null is elsewhere: in a column, null means absent."""
    if b"null" not in block:
        return block
    block = block.replace(b": null", b": NaN").replace(b":null", b":NaN")
    return None if b"null" in block else block


def without_booleans(block: bytes) -> bytes:
    """Return a block with numbers in place of booleans."""
    for boolean, number in ((b"true", TRUE), (b"false", FALSE)):
        block = block.replace(b": " + boolean, b": " + number).replace(b":" + boolean, b":" + number)
    return block


def has_placeholder(text: str) -> bool:
    """Whether a replacement may have changed a name or text."""
    return any(placeholder in text for placeholder in PLACEHOLDERS)


def is_of(column: pa.Array, kinds: Iterable[str]) -> bool:
    """Whether the type of a column is of one of these kinds, by pyarrow's names."""
    import pyarrow as pa

    return any(getattr(pa.types, f"is_{kind}")(column.type) for kind in kinds)


def floats(column: pa.Array) -> NDArray[np.float64]:
    """Return the numbers of a column, with NaN for null."""
    return column.to_numpy(zero_copy_only=False).astype(np.float64)  # type: ignore[no-any-return]  # pyarrow's


def _arrow(types: Types) -> list[tuple[str, Any]]:
    import pyarrow as pa

    return [
        (name, pa.struct(_arrow(kind)) if isinstance(kind, dict) else getattr(pa, kind)())
        for name, kind in types.items()
    ]


LOG_RECORD = "a log record (level and message), which log_records would read"
UNKNOWN = (
    f"neither `metrics` nor a step ({', '.join(STEPS[:3])}, ...), a time, or numbers alone; "
    f"if lines are points, set step: {LINE}"
)
Values = list[tuple[str, float]]
Others = list[tuple[str, Any]]


@dataclass(slots=True)
class FlatLines:
    """The points of all flat lines of a run."""

    options: JsonLines
    fields: PointFields
    kept: FilePoints

    def add(self, number: int, line: dict[str, Any], plan: Plan, lines: LinesFile) -> None:
        """Add a line, or reject it."""
        if plan.record is not None and self._is_skipped_record(plan, line):
            lines.reject(LOG_RECORD, line)
            return
        step = number
        given = None if plan.step is None else line[plan.step]
        fraction = given if type(given) is float and self.fields.is_epoch(plan) else None
        if given is not None and fraction is None:
            whole = step_of(given)
            if whole is None:
                lines.reject(f"the step {quoted(str(plan.step))} is not a whole number", given)
                return
            step = whole
        time, values, others = self._values(plan, line, lines.file.name)
        if fraction is not None:
            values.append((str(plan.step), fraction))
        if others and not self._is_recognised(plan, time):
            lines.reject(UNKNOWN, line)
            return
        if not values and not others:
            lines.reject("without a number", line)
            return
        if others:
            self._add_others(others, values, lines)
        self.kept.add(lines, step, math.nan if time is None else time, values)

    def why_not(self, line: dict[str, Any]) -> str | None:
        """Return why a line is no point, or None if it is one."""
        plan = self.fields.new_plan(tuple(line))
        if self._is_skipped_record(plan, line):
            return LOG_RECORD
        time, values, others = self._values(plan, line, None)
        return None if (not others or self._is_recognised(plan, time)) and (values or others) else UNKNOWN

    def _is_recognised(self, plan: Plan, time: float | None) -> bool:
        return plan.step is not None or time is not None or self.fields.numbered

    def _is_skipped_record(self, plan: Plan, line: dict[str, Any]) -> bool:
        if plan.record is None or self.options.log_records:
            return False
        return all(type(line[name]) is str for name in plan.record)

    def _values(self, plan: Plan, line: dict[str, Any], file: str | None) -> tuple[float | None, Values, Others]:
        """Return the time, the numbers, and all other values of a line. Nulls are counted for the file."""
        time = None if plan.time is None else seconds_of(line[plan.time], certain=plan.certain_time)
        values: Values = []
        others: Others = []
        for name, content in line.items():
            if name == plan.step or (name == plan.time and time is not None):
                continue
            kind = type(content)
            if kind is float:
                values.append((name, content))
                continue
            if kind is str or kind is list:
                others.append((name, content))
                continue
            for leaf, value in _leaves(name, content):
                if value is None:
                    if self.options.nulls == "absent":
                        continue
                    if file is not None:
                        self.kept.add_nulls((file, leaf), 1)
                number = number_of(value)
                if number is None:
                    others.append((leaf, value))
                else:
                    values.append((leaf, number))
        return time, values, others

    def _add_others(self, others: Others, values: Values, lines: LinesFile) -> None:
        for name, value in others:
            if not isinstance(value, str):
                lines.reject(f"{quoted(name)} is not a number", value)
                continue
            if self.kept.is_known_text(lines.file.name, name, value):
                continue
            number = number_in(value)
            if number is not None and not math.isfinite(number):
                values.append((name, number))
            elif number is None:
                self.kept.add_text(lines.file.name, name, value)
            elif self.options.numbers_in_text:
                values.append((name, number))
            else:
                lines.reject(f"{quoted(name)} is a number written as text, which numbers_in_text would read", value)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value, or the values within an object, as `object/field`, up to some depth."""
    stack = [(name, value, 1)]
    while stack:
        name, value, depth = stack.pop()
        if isinstance(value, dict) and depth < MAX_DEPTH:
            stack += [(f"{name}/{inner}", content, depth + 1) for inner, content in reversed(value.items())]
        else:
            yield name, value


FLOAT = ("floating",)
NUMBER = (*FLOAT, "integer")
SCALAR = (*NUMBER, "boolean", "string")
"""The types of dimensions: neither nested values nor text that pyarrow parsed as a time."""
MAX_COMBINATIONS = 1 << 62
EXACT = 2.0**53
"""Greater whole numbers are not exact as floats."""


def add_columns(block: bytes, first_line: int, folder: str, sub_runs: SubRuns, schema: LineSchema) -> bool:
    """Add a block of results. Return False, with nothing added, if its lines are not regular enough."""
    without = without_nulls(block)
    if without is None:
        return False
    if _add(schema.parse(without), first_line, folder, sub_runs):
        return True
    numbers = without_booleans(without)
    return numbers != without and _add(schema.parse(numbers), first_line, folder, sub_runs, replaced=True)


def _add(table: pa.Table | None, first_line: int, folder: str, sub_runs: SubRuns, *, replaced: bool = False) -> bool:
    if table is None or "metrics" not in table.column_names:
        return False
    metrics = _children(table, "metrics")
    dimensions = _children(table, "dimensions") if "dimensions" in table.column_names else {}
    times = table[TIMESTAMP].combine_chunks() if TIMESTAMP in table.column_names else None
    if metrics is None or dimensions is None or not (times is None or is_of(times, NUMBER)):
        return False
    if (
        any(map(has_placeholder, metrics))
        or not all(is_of(column, (*NUMBER, "boolean")) for column in metrics.values())
        or not all(_is_exact(column) for column in dimensions.values())
        or (replaced and any(is_of(column, FLOAT) for column in dimensions.values()))  # it may have been a boolean
    ):
        return False
    step = _steps(table, first_line, sub_runs, replaced=replaced)
    if step is None:
        return False
    try:
        found, group = _group_rows(dimensions, table.num_rows, sub_runs, len(metrics))
    except ValueError:  # includes text with an escaped half of a surrogate pair
        return False
    time = floats(times) if times is not None else np.full(table.num_rows, np.nan)
    for name, column in metrics.items():
        keys = [(folder, sub_run, name) for sub_run in found]
        columns = (step, time, floats(column))
        if not column.null_count:
            sub_runs.points.add_groups(keys, group, columns)
        elif column.null_count < len(column):
            present = column.is_valid().to_numpy(zero_copy_only=False)
            sub_runs.points.add_groups(keys, group[present], tuple(one[present] for one in columns))
    return True


def _group_rows(
    dimensions: dict[str, pa.Array], rows: int, sub_runs: SubRuns, metrics: int
) -> tuple[list[SubRun], NDArray[np.int64]]:
    """Return the sub-runs of a block, and the index of each row's sub-run."""
    named_by = sub_runs.named_by or list(dimensions)
    encoded = {name: column.dictionary_encode() for name, column in dimensions.items() if name in named_by}
    sizes = [len(one.dictionary) + 1 for one in encoded.values()]
    if math.prod(sizes) > MAX_COMBINATIONS:
        raise ValueError("more combinations of dimensions than can be numbered")
    codes = [one.indices.fill_null(len(one.dictionary)).to_numpy() for one in encoded.values()]
    _, group = grouped(codes, sizes) if codes else ([()], np.zeros(rows, np.int64))
    last_row = np.zeros(int(group.max()) + 1, np.int64)
    if not sub_runs.has_room(len(last_row), metrics):
        raise ValueError("more names than are kept")
    last_row[group] = np.arange(rows)  # numpy keeps the last of several assignments
    found = []
    for row in last_row.tolist():
        values = {name: column[row].as_py() for name, column in dimensions.items()}
        texts = {name: text_of(value) for name, value in values.items() if value is not None}
        if any(has_placeholder(name) or has_placeholder(text) for name, text in texts.items()):
            raise ValueError("a replaced null or boolean in a text, or a dimension that is null")
        found.append(sub_runs.add(texts))
    return found, group


def _steps(table: pa.Table, first_line: int, sub_runs: SubRuns, *, replaced: bool) -> NDArray[np.int64] | None:
    """Return each line's step, which is its number if it has none; None if they are not regular enough."""
    names = tuple(name for name, column in zip(table.column_names, table.columns, strict=True) if _has_values(column))
    plan = sub_runs.fields.plan(names) or sub_runs.fields.new_plan(names)
    if plan.step is None:
        return np.arange(first_line, first_line + table.num_rows)
    return steps_of(table[plan.step].combine_chunks(), replaced=replaced)


def _has_values(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count < len(column))


def steps_of(column: pa.Array, *, replaced: bool) -> NDArray[np.int64] | None:
    """Return a column as steps, or None if not all of them are whole numbers. Booleans may have become 0 and 1."""
    if column.null_count or not is_of(column, NUMBER):
        return None
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.int64:
        return numbers  # type: ignore[no-any-return]  # pyarrow's
    whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < EXACT)
    if not whole.all() or (replaced and np.isin(numbers, (0, 1)).any()):
        return None
    return numbers.astype(np.int64)  # type: ignore[no-any-return]  # pyarrow's


def _is_exact(column: pa.Array) -> bool:
    """Whether a dimension is scalar, and no whole number in it was rounded."""
    if not is_of(column, SCALAR):
        return False
    return not is_of(column, FLOAT) or not bool((np.abs(floats(column)) >= EXACT).any())


def _children(table: pa.Table, name: str) -> dict[str, pa.Array] | None:
    """Return the columns of an object, or None if a line lacks the object."""
    column = table[name].combine_chunks()
    if column.null_count or not is_of(column, ("struct",)):
        return None
    return {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}


Columns = dict[str, "pa.Array"]
NUMBER_IN_TEXT = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"


def add_flat_columns(block: bytes, first_line: int, lines: LinesFile, flat: FlatLines, schema: LineSchema) -> bool:
    """Add a block of flat lines. Return False, with nothing added, if they are not regular enough."""
    absent = flat.options.nulls == "absent"
    without = block if absent else without_nulls(block)
    if without is None or flat.options.numbers_in_text or (without != block and b"NaN" in block):
        return False
    nulls = without != block
    if _add_flat(schema.parse(without), first_line, lines, flat, nulls=nulls, replaced=nulls):
        return True
    numbers = without_booleans(without)
    return numbers != without and _add_flat(schema.parse(numbers), first_line, lines, flat, nulls=nulls, replaced=True)


def _add_flat(  # noqa: PLR0913  (one call)
    table: pa.Table | None, first_line: int, lines: LinesFile, flat: FlatLines, *, nulls: bool, replaced: bool
) -> bool:
    block = None if table is None else _regular(table, first_line, flat, replaced=replaced)
    if block is None:
        return False
    file = lines.file.name
    for name, texts in block.texts.items():
        for text in texts:
            flat.kept.add_text(file, name, text)
    for name, column in block.numbers.items():
        rows = block.present[name]
        values = floats(column)[rows]
        if nulls:
            flat.kept.add_nulls((file, name), int(np.count_nonzero(np.isnan(values))))
        if values.size:
            flat.kept.points.add((file, name), (block.step[rows], block.time[rows], values))
    return True


@dataclass(frozen=True, slots=True)
class _Block:
    """The columns of a regular block."""

    step: NDArray[np.int64]
    time: NDArray[np.float64]
    numbers: Columns
    present: dict[str, NDArray[np.bool_]]
    texts: dict[str, list[str]]
    """By name: the first text, and one that differs from it, if any does."""


def _regular(table: pa.Table, first_line: int, flat: FlatLines, *, replaced: bool) -> _Block | None:
    """Return the columns of a block, or None if its lines would not all be treated alike."""
    whole = {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}
    top = {name: column for name, column in whole.items() if column.null_count < len(column)}
    plan = flat.fields.plan(tuple(top)) or flat.fields.new_plan(tuple(top))
    if plan.record and not flat.options.log_records:
        return None
    if flat.fields.is_epoch(plan) and is_of(top[str(plan.step)], FLOAT):
        return None
    first_to_last = np.arange(first_line, first_line + table.num_rows)
    step = first_to_last if plan.step is None else steps_of(top.pop(plan.step), replaced=replaced)
    time, timed = times_of(top, plan, table.num_rows, replaced=replaced)
    columns = _flattened(top)
    if step is None or time is None or columns is None or (replaced and any(map(has_placeholder, columns))):
        return None
    numbers = {name: column for name, column in columns.items() if is_of(column, (*NUMBER, "boolean"))}
    strings = {name: column for name, column in columns.items() if name not in numbers}
    texts = texts_of(strings, replaced=replaced)
    present = {name: column.is_valid().to_numpy(zero_copy_only=False) for name, column in numbers.items()}
    if texts is None or (texts and plan.step is None and not timed and not flat.fields.numbered):
        return None
    if not present or not np.logical_or.reduce(list(present.values())).all():
        return None
    return _Block(step, time, numbers, present, texts)


def times_of(top: Columns, plan: Plan, rows: int, *, replaced: bool) -> tuple[NDArray[np.float64] | None, bool]:
    """Return the time of each line, and whether there is one. It is removed from the columns. None if lines differ."""
    unknown = np.full(rows, np.nan)
    column = top.get(plan.time) if plan.time is not None else None
    if column is None or not is_of(column, (*NUMBER, "string")):
        return unknown, False
    if column.null_count:
        return None, False
    if is_of(column, ("string",)):
        try:
            found = [seconds_of(text, certain=plan.certain_time) for text in column.to_pylist()]
        except UnicodeDecodeError:  # an escaped half of a surrogate pair
            return None, False
        times = np.array([math.nan if one is None else one for one in found])
        fits = np.array([one is not None for one in found])
    else:
        numbers = floats(column)
        if replaced and np.isin(numbers, (0, 1)).any():  # it may have been a boolean
            return None, False
        units = [(np.abs(numbers) < limit, unit) for limit, unit in UNITS]
        times = numbers * np.select([small for small, _ in units], [unit for _, unit in units], math.nan)
        fits = np.bool_(plan.certain_time) | ((times >= FIRST_TIME) & (times < LAST_TIME))
    if not fits.any():
        return unknown, False
    top.pop(str(plan.time))
    return (times, True) if fits.all() else (None, False)


def _flattened(columns: Columns) -> Columns | None:
    """Return the columns with those of objects as `object/field`, or None if one is neither number nor text."""
    found: Columns = {}
    for name, column in columns.items():
        if is_of(column, ("struct",)):
            fields = zip((field.name for field in column.type), column.flatten(), strict=True)
            inner = _flattened({f"{name}/{field}": one for field, one in fields if one.null_count < len(one)})
        else:
            inner = {name: column} if is_of(column, (*NUMBER, "boolean", "string")) else None
        if inner is None or inner.keys() & found.keys():
            return None
        found |= inner
    return found


def texts_of(columns: Columns, *, replaced: bool) -> dict[str, list[str]] | None:
    """Return the first text of each column, and another if there is one; None if one may be a number."""
    from pyarrow import compute

    found = {}
    for name, column in columns.items():
        texts = column.drop_null()
        others = texts.filter(compute.not_equal(texts, texts[0]))
        for some in (texts[:1], others):
            if compute.any(compute.match_substring_regex(some, NUMBER_IN_TEXT)).as_py():
                return None
        try:
            found[name] = [texts[0].as_py(), *(one.as_py() for one in others[:1])]
        except UnicodeDecodeError:  # an escaped half of a surrogate pair
            return None
        if replaced and any(map(has_placeholder, (name, *found[name]))):
            return None
    return found


OTHER_FILES = (streams.STEM, "goodput")
"""Files of JSON lines that are not results, even if they match the config's patterns."""
MAX_SHAPES = 1000


def read(request: Request) -> Found:
    """Read the files that match the config's patterns."""
    options = request.config.sources.json_lines
    fields = PointFields(options.step, options.time)
    kept = FilePoints(options.prefix, options.file_name_prefix, request.allowance)
    sub_runs, flat = SubRuns(options.named_by, fields, request.allowance), FlatLines(options, fields, kept)
    files = [file for file in request.files if _is_selected(file, options)]
    warnings = [warning for file in files for warning in _read_file(LinesFile(file, request.allowance), sub_runs, flat)]
    series, more, texts = kept.found()
    warnings += more
    metadata = {**texts, **sub_runs.metadata()}
    if options.lines == "points":
        return Found([*series, *_series(sub_runs, options.prefix)], (), warnings, len(files), metadata)
    metrics = list(_metrics(sub_runs, options.prefix, in_folders=request.config.use_run_name_prefix))
    if repeated := sum(metric.points > 1 for metric in metrics):
        warnings.append(
            f"{repeated} metrics have several lines with the same dimensions, of which the last counts; "
            "with sources.json_lines.lines: points, all do"
        )
    return Found(series, metrics, warnings, len(files), metadata)


def _is_selected(file: storage.File, options: JsonLines) -> bool:
    return matches_file(options.files, file.name) and not any(is_part_of(stem, file) for stem in OTHER_FILES)


def _read_file(lines: LinesFile, sub_runs: SubRuns, flat: FlatLines) -> list[str]:
    flat.fields.forget()
    reader = _Reader(lines, sub_runs, flat)
    pieces = InPieces(reader.add_columns, reader.add_lines)
    for block in lines.blocks():
        if not lines.first_line and (reason := _why_not(block, flat)):
            return [f"{lines.file.name}: not read: its first lines have {reason}"]
        pieces.add(block, lines.first_line)
    return lines.warnings()


def _why_not(block: bytes, flat: FlatLines) -> str | None:
    """Return why the first lines of a file are no metrics. The rest, which may be large, is then not read."""
    reason = None
    for _, line in parse_lines(first_lines(block, SAMPLE_LINES), lambda *_: None):
        if isinstance(line, dict):
            why_not = None if "metrics" in line else flat.why_not(line)
            if why_not is None:
                return None
            reason = reason or why_not
    return reason or "no JSON object"


@dataclass(slots=True)
class _Reader:
    """Adds the blocks of one file."""

    lines: LinesFile
    sub_runs: SubRuns
    flat: FlatLines
    schema: LineSchema = field(init=False)
    _shapes: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.schema = LineSchema(_is_whole)

    def add_columns(self, block: bytes, first_line: int) -> bool:
        """Add a block by columns. Return False, with nothing added, if its lines are not regular enough."""
        return add_block(block, first_line, self)

    def add_lines(self, block: bytes, first_line: int) -> None:
        """Add a block line by line. A value that is not a number is left out; the rest of its line counts."""
        fields, schema = self.flat.fields, self.schema
        for number, line in self.lines.objects(block, first_line):
            names = tuple(line)
            plan = fields.plan(names)
            if plan is None:
                plan = fields.new_plan(names)
                if schema.usable:
                    schema.learn(line)
                    schema.usable &= not fields.full
            if "metrics" in line:
                _add_result(number, line, plan, self.lines, self.sub_runs)
                if schema.usable:
                    self._learn(line)
            else:
                self.flat.add(number, line, plan, self.lines)

    def _learn(self, line: dict[str, Any]) -> None:
        """Add new metrics to the schema."""
        shape = tuple(line["metrics"]) if isinstance(line["metrics"], dict) else ()
        if shape not in self._shapes:
            self.schema.learn(line)
            self.schema.usable &= len(self._shapes) < MAX_SHAPES and len(shape) <= MAX_COLUMNS
            self._shapes.add(shape)


def add_block(block: bytes, first_line: int, reader: _Reader) -> bool:
    """Add a block by columns, as results or as flat lines."""
    if not reader.schema.fits(block):
        return False
    if b'"metrics"' in block:
        return add_columns(block, first_line, reader.lines.folder, reader.sub_runs, reader.schema)
    return add_flat_columns(block, first_line, reader.lines, reader.flat, reader.schema)


def _is_whole(path: tuple[str, ...]) -> bool:
    """Whether whole numbers in a field have to stay exact: dimensions and steps."""
    return path[0] == "dimensions" or path[-1].lower() in STEPS


def _add_result(number: int, line: dict[str, Any], plan: Plan, lines: LinesFile, sub_runs: SubRuns) -> None:
    metrics, dimensions = line["metrics"], line.get("dimensions") or {}
    if not isinstance(metrics, dict) or not isinstance(dimensions, dict):
        lines.reject("without metrics", line)
        return
    step = number
    if plan.step is not None and line[plan.step] is not None:
        whole = step_of(line[plan.step])
        if whole is None:
            lines.reject(f"the step {quoted(plan.step)} is not a whole number", line[plan.step])
            return
        step = whole
    rows_of = sub_runs.rows_of(lines.folder, dimensions)
    time = number_of(line.get(TIMESTAMP))
    seconds = math.nan if time is None else time
    for name, content in metrics.items():
        value = content if type(content) is float else number_of(content)
        if value is None:
            lines.reject(f"metric {quoted(name)} is not a number", content)
        else:
            rows = rows_of(name)
            if rows is None:
                sub_runs.points.leave_out()
            else:
                rows += (step, seconds, value)
    sub_runs.points.appended(len(metrics))


def _metrics(sub_runs: SubRuns, prefix: str, *, in_folders: bool) -> Iterator[Metric]:
    """Yield one metric for each name, with the value of the last line that has it."""
    labels = sub_runs.labels()
    found: dict[str, Metric] = {}
    for (folder, sub_run, name), (_, times, values) in sub_runs.points:
        parts = (folder if in_folders and folder != "." else "", labels[sub_run], name)
        tag = prefix + "/".join(part for part in parts if part)
        time, earlier = float(times[-1]), found.get(tag)
        found[tag] = Metric(
            tag,
            float(values[-1]),
            tag,
            AS_WRITTEN,
            wall_time=None if math.isnan(time) else time,
            points=len(values) + (earlier.points if earlier else 0),
            non_finite=int(np.count_nonzero(~np.isfinite(values))) + (earlier.non_finite if earlier else 0),
        )
    yield from found.values()


def _series(sub_runs: SubRuns, prefix: str) -> Iterator[Series]:
    """Yield one series for each metric of each sub-run. A point without a step has the number of its line, from 0."""
    labels = sub_runs.labels()
    for (folder, sub_run, name), (line, times, values) in sub_runs.points:
        tag = f"{labels[sub_run]}/{name}" if labels[sub_run] else name
        yield Series(folder, f"{prefix}{tag}", line, times, values)
