"""Weights & Biases, offline: `run-ID.wandb`, records of a protocol buffer in LevelDB's log format."""

from __future__ import annotations

import json
import math
import zlib
from typing import IO, TYPE_CHECKING

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.measure.points import step_of
from ml_metrics.measure.protobuf import fields_of
from ml_metrics.measure.readers.format import Format, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.measure.readers.format import Beginning, Readings


MAGIC = b":W&B"
HEADER_BYTES = 7
BLOCK_BYTES = 32 << 10
RECORD_HEADER_BYTES = 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
HISTORY = 2
"""The field of a record that has values of one step."""
ITEM, STEP = 1, 2
KEY, NESTED_KEY, VALUE = 1, 2, 16
NUMBER = 1
LONGEST_NUMBER = 100
STEP_KEY, TIME_KEY = "_step", "_timestamp"


def claims(file: Beginning) -> bool:
    return file.head.startswith(MAGIC)


def read(found: Readings) -> None:
    """Each number of the history is a point of the series with its key."""
    with found.lines.file.open() as file:
        for number, record in enumerate(records_of(found, file)):
            found.lines.line = number
            try:
                _add(found, record)
            except (ValueError, IndexError):
                found.lines.reject("a record that cannot be decoded", record)


def _add(found: Readings, record: bytes) -> None:
    for field, content in fields_of(record):
        if field == HISTORY and isinstance(content, bytes):
            _add_history(found, content)


def _add_history(found: Readings, history: bytes) -> None:
    values: dict[str, float] = {}
    step: int | None = None
    for field, content in fields_of(history):
        if not isinstance(content, bytes):
            continue
        if field == STEP:
            step = next((one for number, one in fields_of(content) if number == NUMBER and isinstance(one, int)), 0)
        elif field == ITEM:
            key, text = _item(content)
            value = value_of(_parsed(text))
            if value is None:
                found.lines.reject("a value is not a number", text)
            elif key:
                values[key] = value
    if STEP_KEY in values and step is None:
        step = step_of(values[STEP_KEY]) if math.isfinite(values[STEP_KEY]) else None
    time = values.get(TIME_KEY, math.nan)
    for key, value in values.items():
        if not key.startswith("_"):
            found.point(key, step or 0, time, value)


def _item(content: bytes) -> tuple[str, bytes]:
    key, nested, text = "", [], b"null"
    for field, part in fields_of(content):
        if not isinstance(part, bytes):
            continue
        if field == KEY:
            key = part.decode(errors="replace")
        elif field == NESTED_KEY:
            nested.append(part.decode(errors="replace"))
        elif field == VALUE:
            text = part
    return "/".join(nested) or key, text


def _parsed(text: bytes) -> object:
    """Return a value, which W&B writes as JSON; NaN and infinities as its writer spells them."""
    try:
        return json.loads(text) if len(text) <= LONGEST_NUMBER else text
    except (ValueError, RecursionError):
        return text.decode(errors="replace")


def records_of(found: Readings, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the records up to the end of the file, or to the first part that is damaged or cut off.

    Raises:
        UnreadableInputError: The file is of another version of the format.
    """
    block = file.read(BLOCK_BYTES)
    if not block.startswith(MAGIC):
        raise UnreadableInputError("does not begin as a file of W&B")
    at, parts, most = HEADER_BYTES, [], found.allowance.limits.line_bytes
    size = 0
    while block:
        found.allowance.read(len(block))
        while at + RECORD_HEADER_BYTES <= len(block):
            checksum = int.from_bytes(block[at : at + 4], "little")
            length, kind = int.from_bytes(block[at + 4 : at + 6], "little"), block[at + 6]
            end = at + RECORD_HEADER_BYTES + length
            if kind == 0 and length == 0:
                break
            part = block[at + RECORD_HEADER_BYTES : end]
            if len(part) < length or zlib.crc32(block[at + 6 : end]) != checksum:
                found.lines.warn("is damaged or cut off; only the records before were read")
                return
            at = end
            size += length
            parts.append(part if size <= most else b"")
            if kind in (FULL, LAST):
                if size <= most:
                    yield b"".join(parts)
                else:
                    found.lines.reject(f"a record of more than {most:,} bytes", b"".join(parts))
                parts, size = [], 0
        block, at = file.read(BLOCK_BYTES), 0
    if parts:
        found.lines.warn("ends within a record, which was left out")


FORMAT = Format(
    "wandb",
    "Weights & Biases with `WANDB_MODE=offline`: `wandb/offline-run-*/run-*.wandb`",
    "`<key>`, nested keys as `<key>/<field>`, with step and time",
    "The history is read, not the summary or the system metrics. Media and tables are left out. Records are checked by "
    "their checksums: after a damaged one nothing is read.",
    claims,
    read,
    (MAGIC,),
)
