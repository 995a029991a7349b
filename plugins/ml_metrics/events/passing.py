"""Telling from its first bytes that a large record holds nothing for us: images, histograms, audio, meshes.

Most bytes of a large event file are such records, so this looks only at what it must.
"""

from __future__ import annotations

from ml_metrics.events.layout import SCALARS, TEXT
from ml_metrics.events.wire import Odd, Readable, varint

# the keys (field number and wire type) of the fields on the way, and what they are inside of
WALL_TIME, STEP, SUMMARY = 0x09, 0x10, 0x2A  # event
VALUE = 0x0A  # summary
TAG, IMAGE, HISTOGRAM, AUDIO, TENSOR, METADATA = 0x0A, 0x22, 0x2A, 0x32, 0x42, 0x4A  # value
PLUGIN_DATA = 0x0A  # metadata
PLUGIN_NAME = 0x0A  # plugin data


def passes_over(data: Readable, length: int) -> bytes | None:
    """None if the record must be read. Else the tag, if a plugin that shows no scalars claims it, or nothing."""
    try:
        position = 9 if data[0] == WALL_TIME else 0
        if data[position] == STEP:
            _, position = varint(data, position + 1, length)
        value = _only(data, position, length, SUMMARY)
        tag_start, tag_end = _field(data, _only(data, value, length, VALUE), length, TAG)
        kind = data[tag_end]
        _, end = _field(data, tag_end, length, kind)
        if kind in {IMAGE, HISTOGRAM, AUDIO} and (end == length or data[end] == METADATA):
            return b""
        if kind != TENSOR:
            return None
        plugin_data, plugin_end = _field(data, _only(data, end, length, METADATA), length, PLUGIN_DATA)
        name_start, name_end = _field(data, plugin_data, plugin_end, PLUGIN_NAME)
    except (Odd, IndexError):
        return None
    plugin = bytes(data[name_start:name_end])
    return None if plugin in {b"", SCALARS, TEXT} else bytes(data[tag_start:tag_end])


def _field(data: Readable, position: int, end: int, key: int) -> tuple[int, int]:
    """Where the field that should stand here begins and ends."""
    if data[position] != key:
        raise Odd
    size, start = varint(data, position + 1, end)
    if start + size > end:
        raise Odd
    return start, start + size


def _only(data: Readable, position: int, end: int, key: int) -> int:
    """Where the field begins that should stand here and be the last."""
    start, stop = _field(data, position, end, key)
    if stop != end:
        raise Odd
    return start
