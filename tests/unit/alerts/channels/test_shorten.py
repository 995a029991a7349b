"""Texts within the limits of a service: as much as fits at each limit, and the rest is counted."""

from __future__ import annotations

from html import escape
from typing import Any

import pytest

from ml_metrics.alerts.message import Fact, Reason
from ml_metrics.alerts.render import bullets, cut, cut_lines, fitting, size, units

FIRE = "\U0001f525"
REST = "… the rest is left out: the run's page has all of it"


def rest(lines: int) -> str:
    return REST.replace(":", f" ({lines} lines):")


def reasons(*letters: str, length: int) -> tuple[Reason, ...]:
    return tuple(Reason(letter, letter * length) for letter in letters)


def test_a_letter_beyond_the_basic_plane_counts_twice_and_a_size_is_that_of_the_longer_encoding() -> None:
    assert [units(text) for text in ("", "abc", "\uffff", "\U00010000", f"a{FIRE}")] == [0, 3, 1, 2, 3]
    assert [size(text) for text in ("", "abcd", "é" * 10, '"' * 10, "観" * 10, FIRE)] == [2, 8, 22, 22, 32, 6]


@pytest.mark.parametrize(
    ("text", "how", "fits"),
    [
        ("abcdef", {}, ["", "…", "a…", "ab…", "abc…", "abcd…", "abcdef", "abcdef"]),
        ("ab cd", {}, ["", "…", "a…", "ab…", "ab…", "ab cd"]),
        ("a&b&c", {"escape": escape}, ["", "…", *["a…"] * 5, "a&amp;…", *["a&amp;b…"] * 5, "a&amp;b&amp;c"]),
        ("abcdef", {"measure": size}, [*[""] * 5, "…", "a…", "ab…", *["abc…"] * 2, *["abcd…"] * 2, "abcdef"]),
        ("abe\u0301zzzzz", {}, ["", "…", "a…", "ab…", "ab…", "abe\u0301…"]),  # an accent stays with its letter
        ("xy\u200dzwwwww", {}, ["", "…", "x…", "x…", "x…", "xy\u200dz…"]),
        ("\u0301bcdef", {}, ["", "…"]),
    ],
)
def test_a_text_is_cut_to_what_fits_at_each_limit(text: str, how: dict[str, Any], fits: list[str]) -> None:
    assert [cut(text, limit, **how) for limit in range(len(fits))] == fits


LINES, FIRES, NOTE = "\n".join(["12345678"] * 99), "\n".join([FIRE * 4] * 99), len(rest(99))


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("\n".join("abcdefghij"), 19, "\n".join("abcdefghij")),
        (FIRE * 40, 80, FIRE * 40),
        *((LINES, NOTE + more, "12345678\n" * kept + rest(99 - kept)) for more, kept in ((18, 2), (26, 2), (27, 3))),
        *((FIRES, NOTE + more, f"{FIRE * 4}\n" * kept + rest(99 - kept)) for more, kept in ((26, 2), (27, 3))),
        ("\n".join(["a", "b", *["x" * 1000] * 5]), 200, f"a\nb\n{rest(5)}"),
        ("x" * 1000, 100, f"{'x' * (100 - len(rest(1)) - 2)}…\n{REST}"),
        (FIRE * 60, 100, f"{FIRE * 18}…\n{REST}"),
    ],
)
def test_as_many_whole_lines_as_fit_are_kept_or_the_beginning_of_a_first_one_that_is_too_long(
    text: str, limit: int, kept: str
) -> None:
    assert cut_lines(text, limit) == kept


@pytest.mark.parametrize(
    ("limit", "lengths", "left"), [(115, [], 2), (116, [100], 1), (218, [100], 1), (219, [100, 100], 0)]
)
def test_a_problem_has_a_line_if_a_hundred_of_its_letters_fit(limit: int, lengths: list[int], left: int) -> None:
    lines = [f"• {letter * length}" for letter, length in zip("ab", lengths, strict=False)]
    assert bullets(reasons("a", "b", length=100), limit=limit) == lines + [f"• and {left} more"] * bool(left)


def test_ten_problems_are_listed_or_as_many_as_a_service_shows_and_none_is_longer_than_a_paragraph() -> None:
    lines = bullets(reasons(*"abcdefghijk", length=1000), limit=10_000)
    assert lines == [*(f"• {letter * 599}…" for letter in "abcdefghij"), "• and 1 more"]
    assert bullets(reasons("a", length=600), limit=10_000) == [f"• {'a' * 600}"]
    lines = bullets(reasons(*"abc", length=90), limit=200, most=2, longest=50, noun="warning")
    assert lines == [f"• {'a' * 49}…", f"• {'b' * 49}…", "• and 1 more warning"]
    assert bullets((), limit=200) == []


def test_links_that_fit_are_kept_and_a_long_one_does_not_keep_a_shorter_one_out() -> None:
    first, long, last = links = [Fact("abc", "", "1234567"), Fact("abcd", "", "1234567"), Fact("abc", "", "123")]
    kept = {9: [last], 15: [first], 16: [first, last], 27: links}
    assert {limit: fitting(links, limit=limit, most=9) for limit in kept} == kept
    assert fitting(links, limit=27, most=2) == [first, long]
