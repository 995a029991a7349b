"""A reader of event files that is plain and slow: record by record, with protobuf and TensorBoard's own functions.

It is what the reader of the product is compared with, and shares no code with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util.tensor_util import make_ndarray

from unit.measure.events.event_files import masked, point

ALWAYS_VERIFIED_SIZE = 4096
STRING, BFLOAT16 = 7, 14
MORE_TYPES = {BFLOAT16: ("<u2", "half_val"), 22: ("<u4", "uint32_val"), 23: ("<u8", "uint64_val")}
"""Types that TensorBoard reads only where TensorFlow is installed."""
SCALAR_PLUGINS = {"", "scalars"}
Point = tuple[int, float, float | str]


@dataclass(slots=True)
class Contents:
    """Every point of a file by tag, and whether something ended the reading before the end of the file."""

    points: dict[str, list[Point]] = field(default_factory=dict)
    stopped: bool = False
    refused: list[bytes] = field(default_factory=list)
    """Payloads that pass their checksum although protobuf refuses them. They are skipped here."""
    unverified: int = 0
    """The number of large records that fail their checksum and were skipped here."""


def read_bytes(data: bytes, *, verify: bool) -> Contents:
    """Read a file up to its first fault."""
    found = Contents()
    other_plugins: set[str] = set()
    of_unknown_plugin: dict[str, list[Point]] = {}
    for payload in _payloads(data, found, verify=verify):
        try:
            event = Event.FromString(payload)
        except DecodeError:
            found.refused.append(payload)
            continue
        for value in event.summary.value:
            plugin, is_tensor = value.metadata.plugin_data.plugin_name, value.WhichOneof("value") == "tensor"
            if is_tensor and plugin not in {*SCALAR_PLUGINS, "text"}:
                other_plugins.add(value.tag)
            number = number_of(value)
            if number is not None:
                found.points.setdefault(value.tag, []).append(point(event.step, event.wall_time, number))
                if is_tensor and not plugin:
                    of_unknown_plugin.setdefault(value.tag, []).append(found.points[value.tag][-1])
    for tag in other_plugins & of_unknown_plugin.keys():
        left = [one for one in found.points.pop(tag) if not any(one is other for other in of_unknown_plugin[tag])]
        found.points |= {tag: left} if left else {}
    return found


def _payloads(data: bytes, found: Contents, *, verify: bool) -> list[bytes]:
    payloads = []
    position = 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 8], "little")
        payload, end = data[position + 12 : position + 12 + length], position + 16 + length
        if data[position + 8 : position + 12] != masked(data[position : position + 8]) or end > len(data):
            found.stopped = True
            break
        if data[end - 4 : end] == masked(payload):
            payloads.append(payload)
        elif verify or length <= ALWAYS_VERIFIED_SIZE:
            found.stopped = True
            break
        else:
            found.unverified += 1
        position = end
    return payloads


def number_of(value: Any) -> float | None:
    """Return the number of a summary value, if it is a scalar."""
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    tensor = value.tensor
    if value.metadata.plugin_data.plugin_name not in SCALAR_PLUGINS or tensor.dtype == STRING:
        return None
    try:
        array = _array(tensor)
    except (ValueError, TypeError, KeyError):
        return None
    array = array.view(np.uint8) if array.dtype.kind == "b" else array  # one byte, whatever it holds
    return float(array.item()) if array.size == 1 and array.dtype.kind in "fiu" else None


def _array(tensor: Any) -> Any:
    """Return the elements of a tensor. Zeros may be left out: TensorFlow reads them, TensorBoard alone does not."""
    if tensor.dtype in MORE_TYPES:
        kind, name = MORE_TYPES[tensor.dtype]
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        array = np.frombuffer(tensor.tensor_content, kind)
        if not tensor.tensor_content:
            array = np.array([one & 0xFFFF if kind == "<u2" else one for one in getattr(tensor, name)] or [0], kind)
            array = np.repeat(array, np.prod(shape, dtype=np.int64)) if array.size == 1 else array
        array = (array.astype("<u4") << 16).view("<f4") if tensor.dtype == BFLOAT16 else array
        return array.reshape(shape)
    if not tensor.tensor_content:
        tensor = type(tensor).FromString(tensor.SerializeToString())
        for name in ("half_val", "float_val", "double_val", "int_val", "int64_val", "bool_val"):
            if not getattr(tensor, name):
                getattr(tensor, name).append(0)
    return make_ndarray(tensor)
