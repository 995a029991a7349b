from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ml_metrics.measure import cut, last_lines, shown
from ml_metrics.measure.logs import MAX_LINE_LENGTH


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ("  File 'x.py', line 3", "  File 'x.py', line 3"),
        ("\x1b[1;31mred\x1b[0m text", "red text"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;a title that never ends", "0;a title that never ends"),
        ("\x9b31mred", "red"),
        (" 10%|#   |\r 50%|###  |\r100%|#####|\r\n", "100%|#####|"),
        ("1/9\b\b\b2/9\b\b\b9/9", "9/9"),
        ("\b\b\babc", "abc"),
        ("a\x00b\x07c", "abc"),
        ("a\tb", "a    b"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u2028b\u00a0c", "a b c"),
        ("</pre><script>alert(1)</script>", "</pre><script>alert(1)</script>"),
        ("学習 ✓ größer", "学習 ✓ größer"),
        ("", ""),
        ("\r", ""),
    ],
)
def test_a_line_is_what_a_terminal_would_show(raw: str, line: str) -> None:
    assert shown(raw) == line


@given(st.text())
@example("\x1b[")
@example("\x1b]" * 50 + "\ud83d")
def test_every_line_is_printable_and_stays_as_it_is_when_it_is_read_again(raw: str) -> None:
    line = shown(raw)
    assert line.isprintable()
    assert shown(line) == line


@given(st.binary(), st.integers(1, 5))
def test_any_output_becomes_printable_lines(raw: bytes, number: int) -> None:
    lines = last_lines(raw, number)
    assert len(lines) <= number
    assert all(line.isprintable() for line in lines)


def test_the_last_lines_are_kept_whole_and_bounded() -> None:
    assert last_lines(b"one\ntwo\nthree\n", 2) == ("two", "three")
    assert last_lines(b"one\nunfinished", 2) == ("one", "unfinished")
    assert last_lines(b"", 2) == ()
    assert last_lines(b"a\xffb\n", 2) == ("a\\xffb",)
    (huge,) = last_lines(b"start" + b"x" * 5_000_000 + b"end", 2)
    assert len(huge) < MAX_LINE_LENGTH + 100
    assert huge.startswith("start")
    assert huge.endswith("end")


def test_a_secret_is_masked_before_a_line_is_cut() -> None:
    secret = "s" * 50
    for place in range(0, 20_000, 17):
        line = (b"x" * place) + secret.encode() + b"x" * (20_000 - place)
        (found,) = last_lines(line, 1, lambda text: text.replace(secret, "***"))
        assert "ss" not in found


def test_the_rest_of_a_secret_at_a_torn_beginning_is_left_out() -> None:
    assert last_lines(b"ecret and more\nnext\n", 5, torn=7) == ("nd more", "next")


def test_a_long_line_keeps_both_ends() -> None:
    assert cut("a" * 20 + "b" * 300 + "c" * 10, 30) == "a" * 20 + " [... 300 characters ...] " + "c" * 10
    assert cut("short", 30) == "short"
