"""What each service gets: within its limits and without links or mentions of others, whatever a message holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from ml_metrics.alerts.channels import error_reporting, github, paging, sendgrid, webhook
from ml_metrics.alerts.channels.mail import as_mail, fitted
from ml_metrics.alerts.compose import MAX_REASON_LENGTH, compose
from ml_metrics.alerts.message import Fact, Message, MessageKind, Picture, Reason
from ml_metrics.alerts.render import bullets, cut, cut_lines, size, units
from unit.alerts.hostile import HOSTILE
from unit.alerts.reports import REPORT, report_of_kind

FAST = (Phase.explicit, Phase.reuse, Phase.generate)
"""Shrinking messages of megabytes takes minutes."""
PAGING = sorted(paging.URGENCY)
MESSAGE = compose(REPORT, ["a@example.com"], "tests@example.com")
PAYLOADS: dict[str, Callable[[Message], Any]] = {
    "webhook": webhook.slack_blocks,
    "teams": webhook.adaptive_card,
    "google_chat": webhook.chat_card,
    "pagerduty": paging.event,
}
TEXTS = ("key", "subject", "text", "html", "test", "run_key", "owner", "incident")
PARTS = st.sampled_from([*HOSTILE, "&", "<b>", "\U0001f525", "e\u0301", "\n", '"\\', "x "])
pieces = st.tuples(st.text(max_size=50) | PARTS, st.sampled_from([1, 1, 30, 700, 4000]))
problems = st.tuples(st.lists(pieces, max_size=4), st.sampled_from([1, 1, 5000]))
recipes = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(PAGING),
        **dict.fromkeys(TEXTS, pieces),
        **dict.fromkeys(("reasons", "warnings"), problems),
        "links": st.lists(st.tuples(pieces, st.sampled_from([1, 100, 5000, 50_000])), max_size=20),
    }
)
"""Small descriptions of large messages."""
WARNINGS_OF_EMOJI: dict[str, Any] = {
    "kind": PAGING[0],
    **dict.fromkeys(TEXTS, ("x", 1)),
    "reasons": ([("x", 4000)], 5000),
    "warnings": ([("\U0001f525", 700)], 1),
    "links": [],
}
"""Each letter counts twice."""
LONG, EMPTY = ({**WARNINGS_OF_EMOJI, **dict.fromkeys(TEXTS, ("x", times))} for times in (4000, 0))


def prepared(recipe: dict[str, Any]) -> Message:
    values = {name: value[0] * value[1] for name, value in recipe.items() if name not in {"kind", "links"}}
    for name in ("reasons", "warnings"):
        few, times = recipe[name]
        values[name] = tuple(Reason(text, text * number) for text, number in few) * times
    links = tuple(
        Fact(text * number, "", f"https://x.example/{'y' * path}") for (text, number), path in recipe["links"]
    )
    return Message(**values, kind=recipe["kind"], links=links, recipients=("a@example.com",))


def encoded(body: Any) -> int:
    return len(json.dumps(body, ensure_ascii=False).encode(errors="replace"))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(part)


@example(WARNINGS_OF_EMOJI)
@example(LONG)
@example(EMPTY)
@given(recipes)
@settings(max_examples=25, deadline=None, phases=FAST)
def test_no_payload_is_beyond_the_limits_of_its_service(recipe: dict[str, Any]) -> None:
    message = prepared(recipe)
    slack = webhook.slack_blocks(message)
    assert len(slack["blocks"]) <= 50
    assert units(slack["text"]) <= 4000
    assert all(0 < units(block["text"]["text"]) <= 3000 for block in slack["blocks"])

    card = webhook.adaptive_card(message)
    assert encoded(card) <= 28 << 10
    assert len(json.dumps(card, ensure_ascii=False).encode("utf-16-le", "replace")) <= 2 * (28 << 10)
    assert len(card["attachments"][0]["content"]["actions"]) <= 6

    assert encoded(webhook.chat_card(message)) <= 32_000

    event = paging.event(message)
    assert encoded(event) <= 512_000
    assert 0 < units(event["payload"]["summary"]) <= 1024
    assert event["payload"]["source"], "PagerDuty takes no event without one"
    assert len(event["dedup_key"]) <= 255

    alert = paging.alert(message)
    assert 0 < units(alert["message"]) <= 130
    assert units(alert["description"]) <= 15_000
    assert units(alert["alias"]) <= 512
    assert units(alert["entity"]) <= 512
    assert sum(units(name) + units(value) for name, value in alert["details"].items()) <= 8000
    assert units(paging.note(message)["note"]) <= 25_000

    assert units(github.title_of(message)) <= 256
    assert units(github.body_of(message)) <= 65_536

    for reason in message.reasons[:3]:
        assert encoded(error_reporting.event(message, reason)) <= 1 << 16


LOG = "https://x.example/log"


@pytest.mark.parametrize(("link", "more"), [(LOG, f" ||| Logs for this run: {LOG}"), ("", ""), (LOG * 4000, "")])
def test_an_event_of_error_reporting_has_a_link_to_the_log_that_fits(link: str, more: str) -> None:
    event = error_reporting.event(replace(MESSAGE, links=(Fact("logs", "", link),)), Reason("a:loss", "loss rose"))
    assert event["message"] == f"loss rose{more}"


@pytest.mark.parametrize("name", ["webhook", "teams", "google_chat", "pagerduty"])
def test_twenty_thousand_problems_are_counted(name: str) -> None:
    many = tuple(Reason(f"r{number}", f"metric {number} was out of bounds") for number in range(20_000))
    everything = "\n".join(strings(PAYLOADS[name](replace(MESSAGE, reasons=many, warnings=many))))
    assert "metric 0 was" in everything
    shown = len(re.findall(r"metric \d+ was", everything)) // 2
    assert f"• and {20_000 - shown:,} more" in everything
    assert shown == 10 or name == "pagerduty"


def test_the_ten_longest_reasons_are_whole_in_a_card_of_google_chat() -> None:
    card = webhook.chat_card(replace(MESSAGE, reasons=(Reason("r", "\u8a9e" * MAX_REASON_LENGTH),) * 10, warnings=()))
    assert ["\u8a9e" * MAX_REASON_LENGTH in text for text in strings(card)].count(True) == 10


@given(recipes)
@settings(max_examples=25, deadline=None, phases=FAST)
def test_no_name_makes_a_mention_a_link_or_a_tag(recipe: dict[str, Any]) -> None:
    message = prepared(recipe)
    slack = webhook.slack_blocks(message)
    for text in (slack["text"], *(block["text"]["text"] for block in slack["blocks"])):
        assert not re.search(r"<(?!https://x\.example/)", text)
    assert not re.search(r"@[a-zA-Z]", slack["text"])
    assert all(block["text"]["verbatim"] for block in slack["blocks"])

    card = webhook.adaptive_card(message)["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert {run["type"] for block in card["body"] for run in block["inlines"]} == {"TextRun"}
    assert all("{{" not in text and "<at" not in text for text in strings(card))

    chat = webhook.chat_card(message)
    widgets = [widget for section in chat["cardsV2"][0]["card"].get("sections", []) for widget in section["widgets"]]
    paragraphs = [widget["textParagraph"]["text"] for widget in widgets if "textParagraph" in widget]
    for text in (chat["fallbackText"], *paragraphs):
        assert "<" not in text
        assert ">" not in text
    assert not any(re.search(r"&(?!amp;|lt;|gt;)", text) for text in paragraphs), "no entity is cut"

    for text in strings([paging.alert(message), paging.note(message)]):
        assert "<" not in text

    issue = github.body_of(message)
    fence, _, rest = issue.partition("text\n")
    inside, _, after = rest.partition(f"\n{fence}\n")
    assert set(fence) == {"`"}
    assert fence not in inside
    assert after.count("<!--") == after.count("-->") == 1
    assert "\n" not in github.title_of(message)

    addresses = [fact.link for fact in message.links]
    targets = [action["url"] for action in card["actions"]]
    targets += [link["href"] for link in paging.event(message)["links"]]
    targets += [one["onClick"]["openLink"]["url"] for widget in widgets
                for one in widget.get("buttonList", {}).get("buttons", [])]  # fmt: skip
    assert set(targets) <= set(addresses), "an address is never cut"


@pytest.mark.parametrize("braces", range(2, 8))
def test_no_number_of_braces_makes_a_function_of_a_card(braces: int) -> None:
    card = webhook.adaptive_card(replace(MESSAGE, subject=f"{'{' * braces}DATE(2026-01-01T00:00:00Z)}}}}"))
    assert not [text for text in strings(card) if "{{" in text]


@given(pieces, st.integers(20, 400))
def test_a_cut_text_is_a_beginning_within_the_limit(piece: tuple[str, int], limit: int) -> None:
    text = piece[0] * piece[1]
    for measure in (units, size):
        short = cut(text, limit, measure=measure)
        assert measure(short) <= limit
        assert short == text or (short.endswith("…") and text.startswith(short[:-1]))
    assert units(cut_lines(text, limit + 100)) <= limit + 100


@given(problems, st.integers(300, 3000))
def test_each_problem_is_listed_or_counted(many: tuple[list[tuple[str, int]], int], limit: int) -> None:
    listed = tuple(Reason(text, text * number) for text, number in many[0]) * many[1]
    lines = bullets(listed, limit=limit)
    assert units("\n".join(lines)) <= limit
    counted = re.fullmatch(r"• and ([\d,]+) more", lines[-1]) if lines else None
    if counted and int(counted[1].replace(",", "")) + len(lines) - 1 == len(listed):
        return
    assert len(lines) == len(listed)


@pytest.mark.parametrize(("name", "most", "size"), [("webhook", 900, 150), ("teams", 1500, 250)])
def test_warnings_leave_most_of_the_room_to_the_problems(name: str, most: int, size: int) -> None:
    many = {kind: (Reason("loss", f"{kind} {'x' * size}"),) * 50 for kind in ("problem", "warning")}
    message = compose(report_of_kind(MessageKind.BROKEN), [])
    said = str(PAYLOADS[name](replace(message, reasons=many["problem"], warnings=many["warning"])))
    assert most - 2 * size < len("".join(re.findall(r"warning x+", said))) < most
    assert said.count("problem x") > said.count("warning x")


@given(recipes, st.integers(0, 5), st.integers(20_000, 2_000_000))
@settings(max_examples=20, deadline=None, phases=FAST)
def test_a_mail_is_within_the_limit_of_its_server(recipe: dict[str, Any], pictures: int, limit: int) -> None:
    charts = (Picture("metric-1", b"\x89PNG" * 50_000, "a chart"),) * pictures
    whole = replace(prepared(recipe), pictures=charts, subject="a subject", sender="", test="test")
    small = fitted(whole, limit)
    assert len(as_mail(small).as_bytes()) <= limit
    assert encoded(sendgrid.request(small, "me@example.com")) <= limit
    if small is not whole:
        assert small.pictures == ()
