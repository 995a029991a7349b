"""JSON objects behind a token, in the lines of a log that may hold anything else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ml_metrics.json_lines import decoder, is_nested, parse_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.collect.formats.readings import Readings


def marked_objects(found: Readings, *tokens: bytes) -> Iterator[dict[str, Any]]:
    """Yield the object behind the token of each line that has it. Other lines are not looked at."""
    nesting = found.allowance.limits.json_nesting
    decode = decoder() or json.loads
    lines = found.lines
    lines.check = lambda rest: _check(rest, tokens)
    for block in lines.blocks():
        for number, line in enumerate(block.split(b"\n")):
            begin = -1
            for token in tokens:
                begin = line.find(token)
                if begin >= 0:
                    begin += len(token)
                    break
            if begin < 0:
                continue
            lines.line = lines.first_line + number
            text = line[begin:].lstrip(b" :")
            if not text.startswith(b"{"):
                continue
            try:
                value = decode(text)
            except (ValueError, RecursionError) as error:
                try:
                    value = parse_again(text, error)
                except (ValueError, RecursionError):
                    lines.reject("not a whole JSON object behind the token", text)
                    continue
            if text.count(b"{") + text.count(b"[") > nesting and is_nested(value, nesting):
                lines.reject(f"nested more than {nesting} deep", text)
            else:
                yield value


def _check(rest: bytes, tokens: tuple[bytes, ...]) -> None:
    """Raise ValueError for a last line without a line end that is incomplete."""
    for token in tokens:
        if token in rest:
            json.loads(rest[rest.index(token) + len(token) :].lstrip(b" :"))
            return
