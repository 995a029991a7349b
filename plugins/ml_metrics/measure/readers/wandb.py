"""Weights & Biases, offline: `run-ID.wandb`, records of a protocol buffer in LevelDB's log format.

A file begins with `:W&B` and is divided into blocks of 32 KiB. A record has a checksum, a length, and whether it is
whole, or which part of one. Of its fields, `history` has values of one step: keys, and values as JSON.
"""

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

    from ml_metrics.measure.readings import Readings


MAGIC = b":W&B"
FILE_HEADER, RECORD_HEADER = 7, 7
BLOCK_BYTES = 32 << 10
FULL, LAST = 1, 4
HISTORY = 2
"""The field of a record that has values of one step."""
ITEM, STEP = 1, 2
KEY, NESTED_KEY, VALUE = 1, 2, 16
LONGEST_NUMBER = 100


def read(found: Readings) -> None:
    """Each number of the history is a point of the series with its key."""
    with found.lines.file.open() as file:
        for number, record in enumerate(records_of(found, file)):
            found.lines.line = number
            try:
                for field, content in fields_of(record):
                    if field == HISTORY and isinstance(content, bytes):
                        _add_history(found, content)
            except (ValueError, IndexError):
                found.lines.reject("a record that cannot be decoded", record)


def _add_history(found: Readings, history: bytes) -> None:
    values: dict[str, float] = {}
    step: int | None = None
    for field, content in fields_of(history):
        if not isinstance(content, bytes):
            continue
        if field == STEP:
            step = next((one for number, one in fields_of(content) if number == 1 and isinstance(one, int)), 0)
        elif field == ITEM:
            key, text = _item(content)
            value = value_of(_parsed(text))
            if value is None:
                found.lines.reject("a value is not a number", text)
            elif key:
                values[key] = value
    if step is None and math.isfinite(given := values.get("_step", math.nan)):
        step = step_of(given)
    for key, value in values.items():
        if not key.startswith("_"):
            found.point(key, step or 0, values.get("_timestamp", math.nan), value)


def _item(content: bytes) -> tuple[str, bytes]:
    parts: dict[int, list[bytes]] = {}
    for field, part in fields_of(content):
        if isinstance(part, bytes):
            parts.setdefault(field, []).append(part)
    names = parts.get(NESTED_KEY) or parts.get(KEY, [])[-1:]
    return "/".join(name.decode(errors="replace") for name in names), parts.get(VALUE, [b"null"])[-1]


def _parsed(text: bytes) -> object:
    """A value, which W&B writes as JSON; NaN and infinities as its writer spells them."""
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
    at, parts, most = FILE_HEADER, [], found.allowance.limits.line_bytes
    size = 0
    while block:
        found.allowance.read(len(block))
        while at + RECORD_HEADER <= len(block):
            checksum = int.from_bytes(block[at : at + 4], "little")
            length, kind = int.from_bytes(block[at + 4 : at + 6], "little"), block[at + 6]
            end = at + RECORD_HEADER + length
            if kind == 0 and length == 0:
                break
            part = block[at + RECORD_HEADER : end]
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


FORMAT = Format("wandb", (MAGIC,), read, lambda file: file.head.startswith(MAGIC))
