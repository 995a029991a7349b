"""Decodes records of unusual encoding with the protobuf library.

The library is imported at the first such record, because the import takes longer than reading a small run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ml_metrics.events.layout import FLOAT, FORMATS, MAX_TEXT_BYTES, SCALARS, START, STRING, TEXT, Event, TagName

BFLOAT16, HALF = 14, 19
LISTS = {1: "float_val", 2: "double_val", 3: "int_val", 4: "int_val", 5: "int_val", 6: "int_val", 9: "int64_val",
         10: "bool_val", BFLOAT16: "half_val", 17: "int_val", HALF: "half_val",
         22: "uint32_val", 23: "uint64_val"}  # fmt: skip
"""The field of a tensor that holds its elements, by the number of its data type."""


class NotAnEventError(Exception):
    """The bytes are not an event."""


def parse_event(payload: bytes) -> Event:
    """Decode any event that the protobuf library can decode."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto import event_pb2

    try:
        message = event_pb2.Event.FromString(payload)
    except DecodeError as error:
        raise NotAnEventError from error
    event = Event(message.wall_time, message.step, message.session_log.status == START)
    for value in message.summary.value:
        tag, kind = value.tag.encode(), value.WhichOneof("value")
        plugin = value.metadata.plugin_data.plugin_name.encode()
        if kind == "simple_value":
            event.scalars.append((TagName(tag, plugin_unknown=False, single=True), value.simple_value))
        elif kind == "tensor":
            _tensor(event, tag, plugin, value.tensor)
    return event


def _tensor(event: Event, tag: bytes, plugin: bytes, tensor: Any) -> None:
    if plugin not in {b"", SCALARS, TEXT}:
        event.other_plugin_tags.append(tag)
    elif tensor.dtype == STRING:
        if tensor.string_val and plugin != SCALARS:
            event.texts.append((TagName(tag, plugin != TEXT), tensor.string_val[0][: MAX_TEXT_BYTES + 1]))
    elif plugin != TEXT:
        numbers = _numbers(tensor)
        if len(numbers) == 1:
            event.scalars.append((TagName(tag, plugin == b"", tensor.dtype == FLOAT), float(numbers[0])))
        elif plugin == SCALARS:
            event.multi_element_tags.append((tag, len(numbers)))


def _numbers(tensor: Any) -> Any:
    """Return the elements of a numeric tensor, or nothing for other data types."""
    elements = math.prod(dim.size for dim in tensor.tensor_shape.dim)
    listed = getattr(tensor, LISTS.get(tensor.dtype, ""), ())
    if tensor.tensor_content:
        numbers = _content(tensor.dtype, tensor.tensor_content)
        return numbers if len(numbers) != 1 or elements == 1 else range(max(0, elements))
    if tensor.dtype not in LISTS:
        return ()
    if not listed:  # zeros are omitted in this format
        return [0] * elements if elements == 1 else range(max(0, elements))
    if tensor.dtype in {HALF, BFLOAT16}:  # of these, none is repeated
        return _content(tensor.dtype, np.array(listed, "<u2").tobytes()) if elements == len(listed) else ()
    if len(tensor.tensor_shape.dim) and elements != len(listed):  # the last element is repeated to fill the shape
        return range(elements)
    return listed


def _content(dtype: int, content: bytes) -> Any:
    if dtype == BFLOAT16 and len(content) % 2 == 0:  # the upper half of a float32
        return (np.frombuffer(content, "<u2").astype("<u4") << np.uint32(16)).view("<f4")
    kind = np.dtype(FORMATS[dtype]) if dtype in FORMATS else None
    if kind is None or len(content) % kind.itemsize:
        return ()
    return np.frombuffer(content, kind)
