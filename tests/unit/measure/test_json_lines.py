"""Reading JSON lines in blocks: appended lines, compressed files, long and incomplete lines."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.measure import lines as json_lines
from ml_metrics.measure.lines import LineReader, is_part_of, parse_lines
from ml_metrics.store import storage
from ml_metrics.store.storage import File

if TYPE_CHECKING:
    from pathlib import Path

LINES = b"".join(b'{"n": %d}\n' % number for number in range(100))


def reader(path: Path, rejected: list[bytes] | None = None) -> LineReader:
    return LineReader(storage.named_file(str(path)), 1000, (rejected if rejected is not None else []).append)


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("goodput.jsonl", True),
        ("a/b/goodput.jsonl", True),
        ("goodput.jsonl.gz", True),
        ("goodput.20260101T000000-host-1.00000.jsonl", True),
        ("goodput.20260101T000000-host-1.00000.jsonl.gz", True),
        ("goodput.json", False),
        ("my-goodput.jsonl", False),
        ("goodput/results.jsonl", False),
    ],
)
def test_the_parts_of_a_file(name: str, is_part: bool) -> None:
    assert is_part_of("goodput", File(f"/run/{name}", name, 0)) is is_part


def test_a_second_read_returns_only_appended_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES + b'{"n": 1')
    lines = reader(path)
    assert b"".join(lines.new_blocks()) == LINES
    with path.open("ab") as file:
        file.write(b"00}\n")
    assert b"".join(lines.new_blocks()) == b'{"n": 100}\n'
    assert list(lines.new_blocks()) == []


@pytest.mark.parametrize("compressed", [False, True])
def test_blocks_of_any_size_have_the_same_lines(
    tmp_path: Path, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(LINES) if compressed else LINES)
    for size in (1, 7, 100, 1 << 20):
        monkeypatch.setattr(json_lines, "COMPRESSED_BLOCK_BYTES" if compressed else "BLOCK_BYTES", size)
        blocks = list(reader(path).new_blocks())
        assert b"".join(blocks) == LINES
        assert all(block.endswith(b"\n") for block in blocks)


def test_a_damaged_compressed_file_is_an_error_after_the_lines_before_the_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(LINES)[:-20])
    monkeypatch.setattr(json_lines, "COMPRESSED_BLOCK_BYTES", 64)
    found: list[bytes] = []
    with pytest.raises(UnreadableInputError, match="is damaged"):
        found.extend(reader(path).new_blocks())
    assert found
    assert LINES.startswith(b"".join(found))


@pytest.mark.parametrize("size", [1, 300, 1001])
def test_a_line_that_is_too_long_becomes_an_empty_line(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", size)
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES + b"9" * 5000 + b"\n" + LINES + b"8" * 5000)
    rejected: list[bytes] = []
    lines = reader(path, rejected)
    assert b"".join(lines.new_blocks()) == LINES + b"\n" + LINES
    assert [line[:1] for line in rejected] == [b"9", b"8"]
    assert list(lines.last_line()) == []


def test_a_last_line_without_a_line_end_is_complete_if_it_is_json(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for end, last in ((b"", []), (b"\0\0", []), (b'{"n": 1}', [b'{"n": 1}\n'])):
        path.write_bytes(LINES + end)
        lines = reader(path)
        assert b"".join(lines.new_blocks()) == LINES
        assert list(lines.last_line()) == last
    path.write_bytes(LINES + b'{"n"')
    lines = reader(path)
    assert b"".join(lines.new_blocks()) == LINES
    with pytest.raises(UnreadableInputError, match="ends with an incomplete line"):
        list(lines.last_line())


def test_lines_that_are_not_json_are_rejected() -> None:
    rejected: list[tuple[int, bytes]] = []
    block = b'{"n": 1}\n\n{"n"\n' + b"[" * 100_000 + b"\n\xff\n7\n"
    assert list(parse_lines(block, lambda number, line: rejected.append((number, line)))) == [(0, {"n": 1}), (5, 7)]
    assert rejected == [(2, b'{"n"'), (3, b"[" * 100_000), (4, b"\xff")]


def parsed_by_the_json_module(line: bytes) -> str:
    try:
        return repr([(0, json.loads(line))])
    except (ValueError, RecursionError):
        return "[]"


json_text = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
).map(lambda value: json.dumps(value).encode())


@given(json_text, st.binary(max_size=3), st.integers(0, 60))
@example(b"1e999", b"", 0)
@example(b'"\\ud800"', b"", 0)
@example(b"\xef\xbb\xbf{}", b"", 0)
@example(b"t\0r\0u\0e\0", b"", 0)
@example(b"[-Infinity, NaN]", b"", 0)
@example(b"9" * 400, b"", 0)
@example(b"-0", b"", 0)
@example(b"[" * 100_000, b"", 0)
def test_the_fast_parser_has_the_results_of_the_json_module(line: bytes, noise: bytes, where: int) -> None:
    line = line[:where] + noise + line[where:]
    if b"\n" not in line:
        assert repr(list(parse_lines(line, lambda *_: None, 2_000))) == parsed_by_the_json_module(line)
