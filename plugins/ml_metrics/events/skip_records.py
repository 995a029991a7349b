"""Recognizes large records without scalars by their first bytes: images, histograms, audio, meshes.

Most bytes of a large event file are such records, so as few bytes as possible are inspected.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ml_metrics.events.layout import SCALARS, TEXT, plugin_name
from ml_metrics.events.protobuf_wire import CONTINUATION_BIT, NonCanonicalError, varint

if TYPE_CHECKING:
    from collections.abc import Callable

# keys (field number and wire type) of the fields on the path to a tensor, by message
WALL_TIME, STEP, SUMMARY = 0x09, 0x10, 0x2A  # event
VALUE = 0x0A  # summary
TAG, IMAGE, HISTOGRAM, AUDIO, TENSOR, METADATA = 0x0A, 0x22, 0x2A, 0x32, 0x42, 0x4A  # value
KINDS = {IMAGE, HISTOGRAM, AUDIO, TENSOR}
HEAD_SIZE = 256
"""The number of bytes inspected. Records with a longer tag are parsed."""


def skipped_tag(read: Callable[[int, int], bytes], length: int) -> bytes | None:
    """Return None if the record must be read. Otherwise return its tag if it names another plugin, else `b""`.

    `read` returns the bytes of the payload between two positions.
    """
    value = _only_value(read(0, HEAD_SIZE), length)
    if value is None:
        return None
    tag, kind, end = value
    if length - end > HEAD_SIZE:
        return None
    plugin = _plugin(read(end, length)) if end < length else b""
    if kind == TENSOR:
        return None if plugin in {None, b"", SCALARS, TEXT} else tag
    return None if plugin is None else b""


def _only_value(head: bytes, length: int) -> tuple[bytes, int, int] | None:
    """Return tag, kind and end of the content of the only value in a record, or None if it is written in another way.

    Everything around the content is compared with the length of the record, so only metadata may follow it.
    """
    try:
        position = 9 if head[0] == WALL_TIME else 0
        if head[position] == STEP:
            _, position = varint(head, position + 1, HEAD_SIZE)
        for key in (SUMMARY, VALUE):
            size, start = _size(head, position + 1)
            if head[position] != key or start + size != length:
                return None
            position = start
        size, start = _size(head, position + 1)
        if head[position] != TAG:
            return None
        position = start + size
        kind = head[position]
        size, content = _size(head, position + 1)
    except (IndexError, NonCanonicalError):
        return None
    end = content + size
    return (head[start:position], kind, end) if kind in KINDS and end <= length else None


def _size(head: bytes, position: int) -> tuple[int, int]:
    """Return a size and its end. This is `varint` without limits, and faster."""
    value = shift = 0
    while (byte := head[position]) >= CONTINUATION_BIT:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value | byte << shift, position + 1


@lru_cache(maxsize=1024)
def _plugin(metadata: bytes) -> bytes | None:
    """Return the plugin name in the last bytes of a value, or None if they are not its whole metadata."""
    try:
        size, start = varint(metadata, 1, len(metadata))
        complete = metadata[0] == METADATA and start + size == len(metadata)
        return plugin_name(metadata, start, len(metadata)) if complete else None
    except NonCanonicalError:
        return None
