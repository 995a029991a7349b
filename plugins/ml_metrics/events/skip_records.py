"""Telling from its first bytes that a large record holds nothing for us: images, histograms, audio, meshes.

Most bytes of a large event file are such records, so this looks only at what it must.
"""

from __future__ import annotations

from ml_metrics.events.layout import SCALARS, TEXT
from ml_metrics.events.wire import CONTINUES, Readable

# the keys (field number and wire type) of the fields on the way, and what they are inside of
WALL_TIME, STEP, SUMMARY = 0x09, 0x10, 0x2A  # event
VALUE = 0x0A  # summary
TAG, IMAGE, HISTOGRAM, AUDIO, TENSOR, METADATA = 0x0A, 0x22, 0x2A, 0x32, 0x42, 0x4A  # value
PLUGIN_DATA = 0x0A  # metadata
PLUGIN_NAME = 0x0A  # plugin data
HEAD = 256
"""So many bytes are looked at; a record with a longer tag is parsed."""


def passes_over(data: Readable, length: int) -> bytes | None:
    """None if the record must be read. Else the tag, if a plugin that shows no scalars claims it, or nothing."""
    head = bytes(data[:HEAD])
    try:
        position = 9 if head[0] == WALL_TIME else 0
        if head[position] == STEP:
            _, position = _size(head, position + 1)
        if head[position] != SUMMARY:
            return None
        size, position = _size(head, position + 1)
        if head[position] != VALUE or position + size != length:
            return None
        size, position = _size(head, position + 1)
        if head[position] != TAG or position + size != length:
            return None
        size, tag = _size(head, position + 1)
        tag_end = tag + size
        kind = head[tag_end]
        size, content = _size(head, tag_end + 1)
    except IndexError:
        return None
    end = content + size
    if kind in {IMAGE, HISTOGRAM, AUDIO}:
        return b"" if end == length or (end < length and data[end] == METADATA) else None
    plugin = _plugin(bytes(data[end : end + HEAD])) if kind == TENSOR and end < length else None
    return None if plugin in {None, b"", SCALARS, TEXT} else head[tag:tag_end]


def _plugin(metadata: bytes) -> bytes | None:
    """The plugin that the metadata behind a tensor names first, if it is metadata."""
    try:
        size, position = _size(metadata, 1)
        if metadata[0] != METADATA or position + size != len(metadata) or metadata[position] != PLUGIN_DATA:
            return None
        _, position = _size(metadata, position + 1)
        if metadata[position] != PLUGIN_NAME:
            return None
        size, position = _size(metadata, position + 1)
    except IndexError:
        return None
    return metadata[position : position + size]


def _size(data: bytes, position: int) -> tuple[int, int]:
    """A length and where it ends."""
    size = data[position]
    position += 1
    if size < CONTINUES:
        return size, position
    size &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < CONTINUES:
            return size, position
        shift += 7
