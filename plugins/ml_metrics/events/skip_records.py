"""Recognizes large records without scalars by their first bytes: images, histograms, audio, meshes.

Most bytes of a large event file are such records, so as few bytes as possible are inspected.
"""

from __future__ import annotations

from ml_metrics.events.layout import SCALARS, TEXT
from ml_metrics.events.protobuf_wire import NonCanonicalError, Readable, varint

# keys (field number and wire type) of the fields on the path to a tensor, by message
WALL_TIME, STEP, SUMMARY = 0x09, 0x10, 0x2A  # event
VALUE = 0x0A  # summary
TAG, IMAGE, HISTOGRAM, AUDIO, TENSOR, METADATA = 0x0A, 0x22, 0x2A, 0x32, 0x42, 0x4A  # value
PLUGIN_DATA = 0x0A  # metadata
PLUGIN_NAME = 0x0A  # plugin data
HEAD_SIZE = 256
"""The number of bytes inspected. Records with a longer tag are parsed."""


def skipped_tag(data: Readable, length: int) -> bytes | None:
    """Return None if the record must be read. Otherwise return its tag if it names another plugin, else `b""`."""
    head = bytes(data[:HEAD_SIZE])
    try:
        position = 9 if head[0] == WALL_TIME else 0
        if head[position] == STEP:
            _, position = varint(head, position + 1, HEAD_SIZE)
        if head[position] != SUMMARY:
            return None
        size, position = varint(head, position + 1, HEAD_SIZE)
        if head[position] != VALUE or position + size != length:
            return None
        size, position = varint(head, position + 1, HEAD_SIZE)
        if head[position] != TAG or position + size != length:
            return None
        size, tag = varint(head, position + 1, HEAD_SIZE)
        tag_end = tag + size
        kind = head[tag_end]
        size, content = varint(head, tag_end + 1, HEAD_SIZE)
    except (IndexError, NonCanonicalError):
        return None
    end = content + size
    if kind in {IMAGE, HISTOGRAM, AUDIO}:
        return b"" if end == length or (end < length and data[end] == METADATA) else None
    plugin = _plugin(bytes(data[end : end + HEAD_SIZE])) if kind == TENSOR and end < length else None
    return None if plugin in {None, b"", SCALARS, TEXT} else head[tag:tag_end]


def _plugin(metadata: bytes) -> bytes | None:
    """Return the first plugin name in the metadata after a tensor, if those bytes are metadata."""
    try:
        size, position = varint(metadata, 1, HEAD_SIZE)
        if metadata[0] != METADATA or position + size != len(metadata) or metadata[position] != PLUGIN_DATA:
            return None
        _, position = varint(metadata, position + 1, HEAD_SIZE)
        if metadata[position] != PLUGIN_NAME:
            return None
        size, position = varint(metadata, position + 1, HEAD_SIZE)
    except (IndexError, NonCanonicalError):
        return None
    return metadata[position : position + size]
