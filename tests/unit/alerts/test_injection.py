"""Names and other user input cannot add headers, tags or links to a message."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.compose import compose, compose_notice
from ml_metrics.alerts.heartbeat import SECTIONS, Heartbeat, compose_heartbeat
from ml_metrics.alerts.heartbeat import Line as Row
from ml_metrics.alerts.message import Fact, Log, Message, MessageKind, Picture, Problem, Report
from ml_metrics.alerts.night import Line, Night
from ml_metrics.alerts.render import is_link
from servers.channels import Answer, MailServer, Service
from unit.alerts.hostile import HOSTILE

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HEADERS = {
    "Subject",
    "From",
    "To",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "X-ML-Metrics-Test",
    "MIME-Version",
    "Content-Type",
}


def report(name: str) -> Report:
    facts = (Fact("image", name), Fact("pod", name, name), Fact("logs", name, f"https://logs.example/?q={name}"))
    log = Log(name, (name, name), f"note {name}")
    problem = Problem(f"out_of_bounds:{name}", name, name, facts, Picture("metric-1", b"png", name), log)
    several = (name, name)
    return Report(MessageKind.BROKEN, name, name, name, name, (problem, problem), facts, several, several, start=name)


def of_a_run(name: str) -> Message:
    return compose(report(name), ["a@example.com"], "me@example.com")


def messages(name: str) -> list[Message]:
    heartbeat = Heartbeat(NOON, 3, {section: [Row(name, name, name)] for section in SECTIONS})
    return [
        of_a_run(name),
        compose_notice(
            "digest-1",
            MessageKind.DIGEST,
            Night(NOON, NOON, 1, 1, (Line(name, name),)).notice("http://x"),
            ["a@example.com"],
        ),
        compose_heartbeat("heartbeat-1", heartbeat, ["a@example.com"], "", "http://x"),
    ]


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.comments: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "action"}]

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


@pytest.mark.parametrize("name", HOSTILE, ids=[f"{number}" for number in range(len(HOSTILE))])
def test_hostile_names_do_not_change_the_tags_of_a_page(name: str) -> None:
    # a long text is shown elsewhere than a short one
    for message, like in zip(messages(name), messages("p" * len(name)), strict=True):
        tags, plain = Tags(message.html), Tags(like.html)
        # an invalid link is shown as text, without its tag
        assert [tag for tag in tags.seen if tag[0] != "a"] == [tag for tag in plain.seen if tag[0] != "a"]
        assert tags.comments == []
        assert all(is_link(link) or link == "cid:metric-1" for link in tags.links)
        assert "49" not in message.html + message.text + message.subject or "49" in name


@pytest.mark.parametrize("name", HOSTILE, ids=[f"{number}" for number in range(len(HOSTILE))])
def test_hostile_names_do_not_add_headers_or_recipients(name: str, tmp_path: Path) -> None:
    for number, message in enumerate(messages(name)):
        folder = tmp_path / f"{number}"
        path = Path(Outbox(str(folder)).send(message, 1))
        assert path.parent == folder
        mail = message_from_bytes(path.read_bytes(), policy=policy.default)
        assert set(mail) <= HEADERS
        assert len(mail.keys()) == len(set(mail.keys()))
        assert [address.addr_spec for address in mail["To"].addresses] == ["a@example.com"]
        assert len(mail["Subject"]) <= 180
        assert "everybody@example.com" not in mail["From"]
        assert not mail.defects


@pytest.mark.parametrize("name", HOSTILE, ids=[f"{number}" for number in range(len(HOSTILE))])
def test_hostile_names_add_no_control_characters_or_fake_lines_to_plain_text(name: str) -> None:
    message = of_a_run(name)
    assert all(letter.isprintable() or letter == "\n" for letter in message.text)
    assert not any(
        line.startswith(("Bcc:", "owner  ", "```", "|", "MAIL FROM")) for line in message.text.splitlines()[1:]
    )


def test_servers_get_the_same_headers_and_recipients(service: Service, smtp: MailServer) -> None:
    service.answers(Answer(202))
    server = Smtp("127.0.0.1", smtp.port, implicit_tls=False, starttls=False)
    for name in HOSTILE:
        message = of_a_run(name)
        server.send(message, 5)
        SendGrid("SG.key", host=service.url).send(message, 5)
        assert list(service.requests[-1].body["personalizations"]) == [{"to": [{"email": "a@example.com"}]}]
        assert service.requests[-1].body["from"] == {"email": "me@example.com"}
    assert [mail.rcpt_tos for mail in smtp.mails] == [["a@example.com"]] * len(HOSTILE)
