"""The JSON objects of a file: one document, a list, or lines of either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.json_lines import parse_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.collect.formats.readings import Readings

SAMPLE = 64 << 10


def each_object(found: Readings) -> Iterator[dict[str, Any]]:
    """Yield the objects of the current file, of lines one block after the other.

    Raises:
        UnreadableInputError: It is neither JSON lines nor one JSON document.
    """
    if _has_lines(found):
        yield from _lines(found)
        return
    content = found.document()
    for one in content if isinstance(content, list) else [content]:
        if isinstance(one, dict):
            yield one
        else:
            found.lines.reject("not a JSON object", one)


def _has_lines(found: Readings) -> bool:
    """Whether the first line with content is a JSON value by itself, and another line follows."""
    with found.lines.file.open() as file:
        head = file.read(SAMPLE)
    first, end, _ = head.lstrip().partition(b"\n")
    if not end:
        return found.lines.file.size > found.allowance.limits.json_bytes
    return any(True for _ in parse_lines(first, lambda *_: None, found.allowance.limits.json_nesting))


def _lines(found: Readings) -> Iterator[dict[str, Any]]:
    nesting = found.allowance.limits.json_nesting

    def reject(number: int, line: bytes) -> None:
        found.lines.line = found.lines.first_line + number
        found.lines.reject(f"not JSON, or nested more than {nesting} deep", line)

    for block in found.lines.blocks():
        for number, value in parse_lines(block, reject, nesting):
            found.lines.line = found.lines.first_line + number
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, dict):
                    yield one
                else:
                    found.lines.reject("not a JSON object", one)
