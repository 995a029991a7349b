"""JSON objects behind a token, in the lines of a log that may hold anything else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ml_metrics.json_lines import decoder, is_nested, parse_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics.collect.formats.readings import Readings


def marked_objects(found: Readings, block: bytes, first_line: int, token: bytes) -> Iterator[dict[str, Any]]:
    """Yield the object behind the token of each line that has it. Other lines are not looked at."""
    nesting = found.allowance.limits.json_nesting
    decode = decoder() or json.loads
    for number, line in enumerate(block.split(b"\n")):
        begin = line.find(token)
        text = line[begin + len(token) :].lstrip(b" :") if begin >= 0 else b""
        if not text.startswith(b"{"):
            continue
        found.lines.line = first_line + number
        try:
            value = decode(text)
        except (ValueError, RecursionError) as error:
            try:
                value = parse_again(text, error)
            except (ValueError, RecursionError):
                found.lines.reject("not a whole JSON object behind the token", text)
                continue
        if text.count(b"{") + text.count(b"[") > nesting and is_nested(value, nesting):
            found.lines.reject(f"nested more than {nesting} deep", text)
        else:
            yield value


def check_marked(token: bytes) -> Callable[[bytes], None]:
    """Return what raises ValueError for a last line without a line end whose object is incomplete."""

    def check(rest: bytes) -> None:
        if token in rest:
            json.loads(rest[rest.index(token) + len(token) :].lstrip(b" :"))

    return check
