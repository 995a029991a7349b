"""How much of a report a message shows in each room."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from ml_metrics.alerts.compose import ROOMS, Room, cut, encoded_size, pictures_that_fit, shortened
from ml_metrics.alerts.message import Fact, Log, MessageKind, Picture
from unit.alerts.reports import LOSS, REPORT

ROOM = Room(problems=3, detailed=2, letters=10, entries=2, link=20)
FACTS = tuple(Fact(f"fact {one}", "x" * 11, "https://x.example/" + "y" * one) for one in range(1, 5))
PROBLEM = replace(
    LOSS, name="n" * 30, short="s" * 11, sentence="t" * 10, facts=FACTS,
    log=Log("log", tuple(f"line {one}" for one in range(11))),
)  # fmt: skip


def test_the_first_problems_have_details_the_next_a_line_and_the_others_nothing() -> None:
    short = shortened(replace(REPORT, problems=(PROBLEM,) * 4, warned=(PROBLEM,) * 4), ROOM)
    assert [(bool(one.facts), one.log is not None, one.picture is not None) for one in short.problems] == [
        (True, True, True), (True, True, True), (False, False, False)
    ]  # fmt: skip
    assert [bool(one.facts) for one in short.warned] == [False] * 3, "what only warns comes after the problems"
    warned = shortened(replace(REPORT, problems=(PROBLEM,), warned=(PROBLEM,) * 2), ROOM).warned
    assert [bool(one.facts) for one in warned] == [True, False]


def test_of_each_problem_the_first_facts_the_last_lines_and_the_beginning_of_each_text_are_shown() -> None:
    (short,) = shortened(replace(REPORT, problems=(PROBLEM,)), ROOM).problems
    assert (short.name, short.short, short.sentence) == ("n" * 30, "s" * 9 + "…", "t" * 10)
    assert short.facts == (
        Fact("fact 1", "x" * 9 + "…", "https://x.example/y"),
        Fact("fact 2", "x" * 9 + "…", "https://x.example/yy"),
    )
    assert short.log is not None
    assert short.log.lines == tuple(f"line {one}" for one in range(1, 11))


def test_an_address_that_is_too_long_is_left_out() -> None:
    short = shortened(replace(REPORT, facts=FACTS[1:], buttons=FACTS), ROOM)
    assert [bool(one.link) for one in short.facts] == [True, False]
    assert [bool(one.link) for one in short.buttons] == [True, True, False, False]


def test_lists_have_as_many_entries_as_there_is_room_for_and_commands_four_times_the_letters() -> None:
    commands = (Fact("command", "x" * 40), Fact("command", "x" * 41), Fact("third", ""))
    several = tuple("abc")
    short = shortened(
        replace(REPORT, commands=commands, facts=(), suspects=several, warnings=several, sentences=several), ROOM
    )
    assert [one.value for one in short.commands] == ["x" * 40, "x" * 39 + "…"]
    assert short.suspects == short.warnings == short.sentences == ("a", "b")


def test_each_room_is_smaller_than_the_one_before() -> None:
    for wide, narrow in pairwise(ROOMS):
        assert all(getattr(narrow, name) <= getattr(wide, name) for name in Room.__slots__)
        assert narrow.letters < wide.letters


def test_a_cut_record_keeps_what_is_no_text() -> None:
    assert cut(MessageKind.RECOVERED, 3) is MessageKind.RECOVERED
    assert cut(("abcd", 12345, None, True), 3) == ("ab…", 12345, None, True)
    assert [cut("abc", limit) for limit in (1, 2, 3)] == ["…", "a…", "abc"]
    assert cut(Picture("metric-1", b"12345", "abcd"), 3) == Picture("metric-1", b"12345", "ab…")


def test_the_size_of_a_text_counts_what_is_escaped_three_times() -> None:
    assert [encoded_size(text) for text in ("", "abc\n", "=", "é", "観", "\x7f", "\ud83d")] == [0, 4, 3, 6, 9, 3, 1]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([150_000], [0]),
        ([150_001], []),
        ([100_000, 50_001, 50_000], [0, 2]),
        ([50_000] * 4, [0, 1, 2]),
        ([1] * 7, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_first_pictures_that_fit_together_are_kept(sizes: list[int], kept: list[int]) -> None:
    pictures = [Picture(f"metric-{number}", b"x" * each, "") for number, each in enumerate(sizes)]
    assert pictures_that_fit(pictures) == tuple(pictures[number] for number in kept)
