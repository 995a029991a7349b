"""What a message shows and what it counts instead, at the limits of each part."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ml_metrics.alerts.compose import compose, compose_heartbeat, compose_notice, subject_of
from ml_metrics.alerts.message import Fact, Heartbeat, MessageKind, Notice, Reason
from unit.alerts.reports import LOG, LOSS, REPORT, report_of_kind

NOON = datetime(2026, 1, 21, 12, tzinfo=UTC)
DASHBOARD = "https://airflow.example/ml-metrics"
PREFIX = "[ML Metrics] "


@pytest.mark.parametrize(("reasons", "last"), [(100, "sentence 99"), (101, "and 1 more"), (2_101, "and 2,001 more")])
def test_a_message_has_a_hundred_reasons_and_counts_the_others(reasons: int, last: str) -> None:
    problems = tuple(replace(LOSS, name=f"n{one}", sentence=f"sentence {one}") for one in range(reasons))
    found = compose(replace(REPORT, problems=problems), []).reasons
    assert found[:100] == tuple(Reason(f"n{one}", f"sentence {one}") for one in range(100))
    assert found[-1].sentence == last
    assert len(found) == min(reasons, 101)


def test_problems_that_are_not_handed_over_are_counted() -> None:
    message = compose(replace(REPORT, problems=(LOSS,), total=3), [])
    assert message.reasons == (Reason(LOSS.name, LOSS.sentence), Reason("more", "and 2 more"))
    assert message.subject.endswith("(+2 more)")
    whole = compose(replace(REPORT, problems=(LOSS,), total=1), [])
    assert (whole.reasons, "more)" in whole.subject) == ((Reason(LOSS.name, LOSS.sentence),), False)


def test_a_recovery_has_what_works_again_as_its_only_reason() -> None:
    report = report_of_kind(MessageKind.RECOVERED, problems=(), headline="loss 0.1", sentences=("For a day.", "Well."))
    message = compose(report, [])
    assert message.reasons == (Reason("recovered", "loss 0.1 For a day. Well."),)
    assert message.subject == f"{PREFIX}{report.test} recovered: loss 0.1"
    assert subject_of(replace(report, headline="")) == f"{PREFIX}{report.test} recovered"


def test_warnings_are_marked_and_addresses_are_one_line() -> None:
    message = compose(replace(REPORT, warned=(LOSS,)), ["a@example.com\nBcc: b@example.com"], "me\n@example.com")
    assert message.warnings == (Reason(LOSS.name, f"Warning: {LOSS.sentence}"),)
    assert (message.recipients, message.sender) == (("a@example.com Bcc: b@example.com",), "me @example.com")


@pytest.mark.parametrize(("length", "is_headline"), [(160, True), (161, False)])
def test_a_long_sentence_is_a_paragraph_below_the_short_one(length: int, is_headline: bool) -> None:
    problem = replace(LOSS, short="the short one", sentence="s" * length)
    html = compose(replace(REPORT, problems=(problem,)), []).html
    assert (f"<h1>{'s' * length}</h1>" in html, "<h1>the short one</h1>" in html) == (is_headline, not is_headline)
    assert html.count("s" * length) == 1


@pytest.mark.parametrize(("length", "shown"), [(48, "t" * 48), (49, "t" * 47 + "…")])
def test_a_long_name_of_a_test_leaves_room_for_the_problem(length: int, shown: str) -> None:
    assert subject_of(replace(REPORT, test="t" * length)).startswith(f"{PREFIX}{shown} failed: loss_final 1.79")


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


def test_a_notice_is_bad_news_unless_it_says_otherwise() -> None:
    assert '<p class="state bad">' in compose_notice("k", MessageKind.FILE, Notice("a headline"), []).html


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


def test_a_heartbeat_is_green_only_if_all_is_well() -> None:
    well = Heartbeat(NOON, 1, on_time=1)
    colours = [
        [f'class="state {style}"' in compose_heartbeat("k", one, [], "", DASHBOARD).html for style in ("ok", "warning")]
        for one in (well, replace(well, paused=("t",)))
    ]
    assert colours == [[True, False], [False, True]]


@pytest.mark.parametrize("only", ["facts", "log", "picture"])
def test_a_further_problem_with_any_detail_is_not_a_mere_line(only: str) -> None:
    bare = replace(LOSS, sentence="the bare one", facts=(), log=None, picture=None)
    detailed = replace(bare, sentence="the detailed one", **{only: getattr(replace(LOSS, log=LOG), only)})
    html = compose(replace(REPORT, problems=(LOSS, bare, detailed)), []).html
    assert 0 < html.index("the detailed one") < html.index("the bare one"), "lines come after details"
    assert (html.count("the bare one"), html.count("the detailed one")) == (1, 1)
    assert " more" not in html
