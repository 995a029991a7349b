"""Records that are not written in the plain way, through the protobuf library.

It is imported when the first such record comes: it costs more than reading a small run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ml_metrics.events.layout import FORMATS, SCALARS, START, STRING, TEXT
from ml_metrics.events.record import MAX_TEXT_BYTES, Name, Record

BFLOAT16, HALF = 14, 19
LISTS = {1: "float_val", 2: "double_val", 3: "int_val", 4: "int_val", 5: "int_val", 6: "int_val", 9: "int64_val",
         10: "bool_val", BFLOAT16: "half_val", HALF: "half_val", 22: "uint32_val", 23: "uint64_val"}  # fmt: skip
"""The field of a tensor that holds its elements, by the number of its type."""


class NotAnEventError(Exception):
    """The bytes are no event at all."""


def read_odd(payload: bytes) -> Record:
    """Read any record that the protobuf library can read."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    try:
        event = Event.FromString(payload)
    except DecodeError as error:
        raise NotAnEventError from error
    record = Record(event.wall_time, event.step, event.session_log.status == START)
    for value in event.summary.value:
        tag, kind = value.tag.encode(), value.WhichOneof("value")
        plugin = value.metadata.plugin_data.plugin_name.encode()
        if kind == "simple_value":
            record.scalars.append((Name(tag, bare=False), value.simple_value))
        elif kind == "tensor":
            _tensor(record, tag, plugin, value.tensor)
    return record


def _tensor(record: Record, tag: bytes, plugin: bytes, tensor: Any) -> None:
    if plugin not in {b"", SCALARS, TEXT}:
        record.foreign.append(tag)
    elif tensor.dtype == STRING:
        if tensor.string_val and plugin != SCALARS:
            record.texts.append((Name(tag, plugin != TEXT), tensor.string_val[0][: MAX_TEXT_BYTES + 1]))
    elif plugin != TEXT:
        numbers = _numbers(tensor)
        if len(numbers) == 1:
            record.scalars.append((Name(tag, plugin == b""), float(numbers[0])))
        elif plugin == SCALARS:
            record.shaped.append((tag, len(numbers)))


def _numbers(tensor: Any) -> Any:
    """The elements of a numeric tensor; none of a type that is no number."""
    elements = math.prod(dim.size for dim in tensor.tensor_shape.dim)
    listed = getattr(tensor, LISTS.get(tensor.dtype, ""), ())
    if tensor.tensor_content:
        return _content(tensor.dtype, tensor.tensor_content)
    if tensor.dtype not in LISTS:
        return ()
    if not listed:  # the format leaves out what is zero
        return [0] * elements if elements == 1 else range(max(0, elements))
    if tensor.dtype in {HALF, BFLOAT16}:
        return _content(tensor.dtype, np.array(listed, "<u2").tobytes())
    if len(tensor.tensor_shape.dim) and elements != len(listed):  # the last element stands for those that follow
        return range(elements)
    return listed


def _content(dtype: int, content: bytes) -> Any:
    if dtype == BFLOAT16 and len(content) % 2 == 0:  # the upper half of a float32
        return (np.frombuffer(content, "<u2").astype("<u4") << np.uint32(16)).view("<f4")
    kind = np.dtype(FORMATS[dtype]) if dtype in FORMATS else None
    if kind is None or len(content) % kind.itemsize:
        return ()
    return np.frombuffer(content, kind)
