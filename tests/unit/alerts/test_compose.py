"""What a message shows and what it counts instead, at the limits of each part."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import check
from ml_metrics.alerts import one_line
from ml_metrics.alerts.channels.mail import as_mail
from ml_metrics.alerts.compose import (
    HEADLINES,
    Room,
    compose,
    compose_notice,
    cut,
    pictures_that_fit,
    shortened,
)
from ml_metrics.alerts.message import Fact, Log, MessageKind, Notice, Picture, Problem, Reason
from unit.alerts.reports import JOB, LOG, LOSS, REPORT, report_of_kind

RUN_OCCASIONS = tuple(HEADLINES)


@pytest.mark.parametrize("occasion", RUN_OCCASIONS)
def test_messages_match_their_golden_files(occasion: MessageKind) -> None:
    problems = () if occasion is MessageKind.RECOVERED else REPORT.problems
    suspects = () if occasion is MessageKind.RECOVERED else REPORT.suspects
    start = " after 4 days" if occasion is MessageKind.RECOVERED else REPORT.start
    report = report_of_kind(occasion, problems=problems, suspects=suspects, start=start)
    message = compose(report, ["vision-team@example.com"])
    check(f"alerts/{occasion}.txt", f"Subject: {message.subject}\n\n{message.text}")
    check(f"alerts/{occasion}.html", message.html)


def test_a_long_subject_keeps_its_start_and_count() -> None:
    problems = (replace(LOSS, short="x" * 300), LOSS)
    subject = compose(replace(REPORT, problems=problems), []).subject
    assert len(subject) <= 120
    assert subject.startswith("[ML Metrics] tf-mnist-example-cpu failed: x")
    assert subject.endswith("… (+1 more)")


def test_a_header_is_one_short_line() -> None:
    assert one_line("a\r\nb\u2028c\x00d\u202ee") == "a b c d e"
    assert len(one_line("x" * 1000)) == 180


PREFIX = "[ML Metrics] "


@pytest.mark.parametrize(("reasons", "last"), [(100, "sentence 99"), (101, "and 1 more"), (2_101, "and 2,001 more")])
def test_a_message_has_a_hundred_reasons_and_counts_the_others(reasons: int, last: str) -> None:
    problems = tuple(replace(LOSS, name=f"n{one}", sentence=f"sentence {one}") for one in range(reasons))
    found = compose(replace(REPORT, problems=problems), []).reasons
    assert found[:100] == tuple(Reason(f"n{one}", f"sentence {one}") for one in range(100))
    assert found[-1].sentence == last
    assert len(found) == min(reasons, 101)


def test_a_recovery_has_what_works_again_as_its_only_reason() -> None:
    report = report_of_kind(
        MessageKind.RECOVERED,
        problems=(),
        start=" after 4 days",
        headline="loss 0.1",
        sentences=("For a day.", "Well."),
    )
    message = compose(report, [])
    assert message.reasons == (Reason("recovered", "loss 0.1 For a day. Well."),)
    assert message.subject == f"{PREFIX}{report.test} recovered after 4 days: loss 0.1"
    assert compose(replace(report, headline="", start=""), []).subject == f"{PREFIX}{report.test} recovered"


def test_warnings_are_marked_and_addresses_are_one_line() -> None:
    message = compose(replace(REPORT, warned=(LOSS,)), ["a@example.com\nBcc: b@example.com"], "me\n@example.com")
    assert message.warnings == (Reason(LOSS.name, f"Warning: {LOSS.sentence}"),)
    assert (message.recipients, message.sender) == (("a@example.com Bcc: b@example.com",), "me @example.com")


@pytest.mark.parametrize(
    ("number", "told"),
    [(20, []), (21, ["and 1 more warning"]), (25, ["and 5 more warnings"]), (2_020, ["and 2,000 more warnings"])],
)
def test_twenty_warnings_are_listed_and_the_others_are_counted(number: int, told: list[str]) -> None:
    warned = tuple(replace(JOB, name=f"n{one}", sentence=f"warned {one}.", log=None) for one in range(number))
    message = compose(replace(REPORT, warned=warned), [])
    assert message.text.count("* Warning: warned ") == 20
    for text in (message.text, message.html):
        assert re.findall(r"and \S+ more warnings?", text) == told


def test_the_first_line_is_the_subject_and_the_sentence_follows_if_it_says_more() -> None:
    message = compose(replace(REPORT, problems=(LOSS,)), [])
    line = message.subject.removeprefix(PREFIX)
    assert message.text.splitlines()[:3] == [line, "", f"  {LOSS.sentence}"]
    assert f"<h1>{line.partition(': ')[2]}</h1>" in message.html
    same = compose(replace(REPORT, problems=(JOB,), start=""), [])
    assert (same.text + same.html).count(JOB.sentence) == 2


@pytest.mark.parametrize(("length", "shown"), [(40, "t" * 39 + "s"), (300, "t" * 19 + "…" + "t" * 19 + "s")])
def test_a_long_name_of_a_test_leaves_room_for_the_problem(length: int, shown: str) -> None:
    subject = compose(replace(REPORT, test="t" * (length - 1) + "s"), []).subject
    assert subject.startswith(f"{PREFIX}{shown} failed: loss_final +99 %")
    assert len(subject) <= 120


@pytest.mark.parametrize(
    ("kind", "is_good", "style", "label"),
    [
        (MessageKind.MASS, False, "bad", "Mass failure"),
        (MessageKind.MASS, True, "ok", "Mass failure"),
        (MessageKind.FILE, False, "bad", "Test file"),
        (MessageKind.COST, False, "note", "Cost of the week"),
        (MessageKind.RECOVERED, False, "ok", "Recovered"),
    ],
)
def test_the_colour_and_the_label_of_a_notice(kind: MessageKind, is_good: bool, style: str, label: str) -> None:
    notice = Notice("a headline", is_good=is_good)
    assert f'<p class="state {style}">{label}</p>' in compose_notice("k", kind, notice, []).html
    assert ">Own</p>" in compose_notice("k", kind, replace(notice, label="Own"), []).html


def test_a_notice_has_two_buttons_fifty_rows_and_ten_links() -> None:
    buttons = tuple(Fact(f"b{one}", f"Button {one}", f"https://x.example/b{one}") for one in range(3))
    rows = tuple(Fact(f"row-{one:02}-", "x", f"https://x.example/r{one}") for one in range(51))
    message = compose_notice("k", MessageKind.MASS, Notice("a headline", ("said",), rows, buttons), [])
    assert [f">Button {one}<" in message.html for one in range(3)] == [True, True, False]
    assert [f"row-{one:02}-" in message.text for one in range(51)] == [True] * 50 + [False]
    assert "and 1 more" in message.text
    assert message.links == tuple([*buttons, *rows][:10])
    assert message.reasons[:2] == (Reason("mass", "said"), Reason("mass:row-00-", "row-00-: x"))
    fifty = compose_notice("k", MessageKind.MASS, Notice("a headline", (), rows[:50]), [])
    assert " more" not in fifty.text


@pytest.mark.parametrize("only", ["facts", "log", "picture"])
def test_a_further_problem_with_any_detail_is_not_a_mere_line(only: str) -> None:
    bare = replace(LOSS, sentence="the bare one", facts=(), log=None, picture=None)
    detailed = replace(bare, sentence="the detailed one", **{only: getattr(replace(LOSS, log=LOG), only)})
    html = compose(replace(REPORT, problems=(LOSS, bare, detailed)), []).html.replace("(+2 more)", "")
    assert 0 < html.index("the detailed one") < html.index("the bare one"), "lines come after details"
    assert (html.count("the bare one"), html.count("the detailed one")) == (1, 1)
    assert " more" not in html


MAX_MAIL = 500_000
LETTERS = st.sampled_from(["x", "=", '"', "<", "é", "観", "\U0001f525"])


def size(text: str, number: int, lines: int = 20) -> int:
    """Return the size of the mail about a run in which everything is long, and there is much of it."""
    fact = Fact("a name", text, f"https://logs.example/?q={'x' * min(len(text), 5000)}")
    picture = Picture("metric-1", b"\x89PNG" * 20_000, text)
    problem = Problem(f"out_of_bounds:{text}", text, text, (fact,) * 20, picture, Log(text, (text,) * lines, text))
    report = replace(
        REPORT,
        test=text,
        problems=(problem,) * number,
        warned=(problem,) * number,
        facts=(fact,) * 20,
        suspects=(text,) * number,
        warnings=(text,) * number,
        first=text,
        sentences=(text,) * 5,
        buttons=(fact, fact),
    )
    return len(as_mail(compose(report, ["a@example.com"])).as_bytes())


@settings(max_examples=25, deadline=None)
@given(LETTERS, st.integers(1, 20_000), st.integers(0, 120), st.integers(0, 2000))
def test_a_mail_is_small(letter: str, length: int, number: int, lines: int) -> None:
    assert size(letter * length, number, lines) < MAX_MAIL


def test_twenty_thousand_metrics_are_counted_and_the_worst_are_listed() -> None:
    problems = tuple(replace(LOSS, name=f"out_of_bounds:{number}", picture=None) for number in range(100))
    counted = ("19,990 out of bounds", "10 missing")
    message = compose(replace(REPORT, problems=problems, warned=(), counted=counted, total=20_000), [])
    assert "and 19,980 more; in all 19,990 out of bounds, 10 missing. The page of the run lists them." in message.text
    assert message.html.count("must be below") == 20
    assert len(message.reasons) == 101
    assert message.reasons[-1].sentence == "and 19,900 more"
    assert message.subject.endswith("(+19,999 more)")


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


def test_an_address_that_is_too_long_is_left_out_and_lists_have_as_many_entries_as_there_is_room_for() -> None:
    several = tuple("abc")
    lists = {"suspects": several, "warnings": several, "sentences": several}
    short = shortened(replace(REPORT, facts=FACTS[1:], buttons=FACTS, **lists), ROOM)
    assert [bool(one.link) for one in short.facts] == [True, False]
    assert [bool(one.link) for one in short.buttons] == [True, True, False, False]
    assert short.suspects == short.warnings == short.sentences == ("a", "b")


def test_a_cut_record_keeps_what_is_no_text() -> None:
    assert cut(MessageKind.RECOVERED, 3) is MessageKind.RECOVERED
    assert cut(("abcd", 12345, None, True), 3) == ("ab…", 12345, None, True)
    assert [cut("abc", limit) for limit in (1, 2, 3)] == ["…", "a…", "abc"]
    assert cut(Picture("metric-1", b"12345", "abcd"), 3) == Picture("metric-1", b"12345", "ab…")


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
