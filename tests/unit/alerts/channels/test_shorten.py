"""Texts within the limits of a service: as much as fits at each limit, and the rest is counted."""

from __future__ import annotations

from html import escape

import pytest

from ml_metrics.alerts.message import Fact, Reason
from ml_metrics.alerts.render import bullets, cut, cut_lines, fitting, size, units

REST = "… the rest is left out: the run's page has all of it"


def rest(lines: int) -> str:
    return REST.replace(":", f" ({lines} lines):")


def reasons(*letters: str, length: int) -> tuple[Reason, ...]:
    return tuple(Reason(letter, letter * length) for letter in letters)


def test_a_letter_beyond_the_basic_plane_counts_twice() -> None:
    assert [units(text) for text in ("", "abc", "\uffff", "\U00010000", "a\U0001f525")] == [0, 3, 1, 2, 3]


def test_the_size_is_that_of_the_longer_encoding() -> None:
    texts = ("", "abcd", "é" * 10, '"' * 10, "観" * 10, "\U0001f525")
    assert [size(text) for text in texts] == [2, 8, 22, 22, 32, 6]


def test_a_text_is_cut_to_what_fits_at_each_limit() -> None:
    fits = ["", "…", "a…", "ab…", "abc…", "abcd…", "abcdef", "abcdef"]
    assert [cut("abcdef", limit) for limit in range(8)] == fits
    assert [cut("ab cd", limit) for limit in range(6)] == ["", "…", "a…", "ab…", "ab…", "ab cd"]


def test_an_escaped_text_is_cut_between_its_letters() -> None:
    fits = {limit: cut("a&b&c", limit, escape=escape) for limit in range(14)}
    assert list(fits.values()) == ["", "…", *["a…"] * 5, "a&amp;…", *["a&amp;b…"] * 5, "a&amp;b&amp;c"]


def test_a_text_is_cut_to_its_size_in_bytes() -> None:
    assert [cut("abcdef", limit, measure=size) for limit in (4, 5, 6, 7, 11, 12)] == [
        "", "…", "a…", "ab…", "abcd…", "abcdef"
    ]  # fmt: skip


def test_what_belongs_together_is_left_out_together() -> None:
    accent, joined = "abe\u0301" + "z" * 9, "xy\u200dzwwwww"
    assert [cut(accent, limit) for limit in (3, 4, 5)] == ["ab…", "ab…", "abe\u0301…"]
    assert [cut(joined, limit) for limit in (2, 3, 4, 5)] == ["x…", "x…", "x…", "xy\u200dz…"]
    assert cut("e\u0301bcdef", 2) == "…"
    assert cut("\u0301bcdef", 1) == "…"


def test_a_text_that_fits_keeps_all_its_lines() -> None:
    text = "\n".join("abcdefghij")
    assert cut_lines(text, len(text)) == text
    assert cut_lines("\U0001f525" * 40, 80) == "\U0001f525" * 40


def test_as_many_whole_lines_as_fit_are_kept() -> None:
    text = "\n".join(["12345678"] * 99)
    note = len(rest(99))
    for limit, kept in ((note + 18, 2), (note + 19, 2), (note + 26, 2), (note + 27, 3)):
        assert cut_lines(text, limit) == "12345678\n" * kept + rest(99 - kept)
    fires = "\n".join(["\U0001f525" * 4] * 99)
    assert [cut_lines(fires, note + limit).count("\n") for limit in (26, 27)] == [2, 3]


def test_the_lines_before_a_long_one_are_kept() -> None:
    assert cut_lines("\n".join(["a", "b", *["x" * 1000] * 5]), 200) == f"a\nb\n{rest(5)}"


def test_the_beginning_of_a_first_line_that_is_too_long_is_kept() -> None:
    beginning, _, note = cut_lines("x" * 1000, 100).partition("\n")
    assert (beginning, note) == ("x" * (100 - len(rest(1)) - 2) + "…", REST)
    assert cut_lines("\U0001f525" * 60, 100) == "\U0001f525" * 18 + f"…\n{REST}"


@pytest.mark.parametrize(
    ("limit", "lengths", "left"), [(115, [], 2), (116, [100], 1), (218, [100], 1), (219, [100, 100], 0)]
)
def test_a_problem_has_a_line_if_a_hundred_of_its_letters_fit(limit: int, lengths: list[int], left: int) -> None:
    lines = [f"• {letter * length}" for letter, length in zip("ab", lengths, strict=False)]
    assert bullets(reasons("a", "b", length=100), limit=limit) == lines + [f"• and {left} more"] * bool(left)


def test_the_first_ten_problems_are_listed_and_none_is_longer_than_a_paragraph() -> None:
    lines = bullets(reasons(*"abcdefghijk", length=1000), limit=10_000)
    assert lines == [*(f"• {letter * 599}…" for letter in "abcdefghij"), "• and 1 more"]
    assert bullets(reasons("a", length=600), limit=10_000) == [f"• {'a' * 600}"]


def test_a_service_sets_how_many_problems_it_shows_and_how_much_of_each() -> None:
    lines = bullets(reasons(*"abc", length=90), limit=200, most=2, longest=50, more="more warnings")
    assert lines == [f"• {'a' * 49}…", f"• {'b' * 49}…", "• and 1 more warnings"]
    assert bullets((), limit=200) == []


def test_links_that_fit_are_kept_and_a_long_one_does_not_keep_a_shorter_one_out() -> None:
    first, long, last = Fact("abc", "", "1234567"), Fact("abcd", "", "1234567"), Fact("abc", "", "123")
    links = [first, long, last]
    assert fitting(links, limit=9, most=9) == [last]
    assert fitting(links, limit=15, most=9) == [first]
    assert fitting(links, limit=16, most=9) == [first, last]
    assert fitting(links, limit=27, most=9) == links
    assert fitting(links, limit=27, most=2) == [first, long]
