"""Show the messages about tests: whether they were sent, on which channels, and when each is tried again. Times are
UTC.

`ml-metrics alerts` explains the states. A `dead` message is saved in the outbox folder, and not tried again.

--send does what the DAG `ml_messages` does every five minutes, without a wait for the next attempt; nothing is sent
twice. Then the exit code is 1 if a message is still pending.

examples:
  ml-metrics messages --pending
  ml-metrics messages --send
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from ml_metrics.alerts import COMMAND_LINE, send_pending
from ml_metrics.core.text import counted, printable
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_flag, add_value, days
from ml_metrics.ui.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.output import give, minute, wrapped
from ml_metrics.ui.dashboard.page import problems_of_senders
from ml_metrics.warehouse import IN_DIGEST, MessageState, SenderPass, SendersState, StoredMessage, Warehouse

MAX_MESSAGES = 1000


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "default: every test", nargs="?")
    add_flag(parser, "--pending", "only those pending or held, of the last 30 days")
    add_flag(parser, "--send", "first send what is pending")
    add_value(parser, "--days", "N", "how far back; default: 7", days, default=7.0)
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    now, done, newest = datetime.now(UTC), None, None
    messages: list[StoredMessage] = []
    state = SendersState(None)
    try:
        with open_chosen(arguments) as warehouse:
            if arguments.send:
                from ml_metrics.airflow import load_mail_settings

                done = send_pending(warehouse, load_mail_settings(), sender=COMMAND_LINE, without_pauses=True)
            newest, state = warehouse.senders.newest(), warehouse.senders.state(now)
            messages = _read(warehouse, arguments, now)
            if arguments.test and not messages:
                require_test(warehouse, arguments.test)
    except NothingRecordedError as error:
        if arguments.test or arguments.send:
            raise
        if not arguments.json:
            print(printable(f"warehouse: {error}"), file=sys.stderr)
    document = {
        "sender": asdict(newest) if newest else None,
        "no_sender_since": state.silent_since(now),
        "pending": state.pending,
        "dead": state.dead,
        "messages": list(map(as_document, messages)),
    }
    lines = [*sender_lines(newest, state, now), *_lines(messages, pending=arguments.pending)]
    give(arguments, document | ({"pass": asdict(done)} if done else {}), lines)
    return 1 if done and done.pending else 0


def _read(warehouse: Warehouse, arguments: Arguments, now: datetime) -> list[StoredMessage]:
    if arguments.pending:
        waiting = warehouse.messages.waiting(now - timedelta(days=30))
        return [one for one in waiting if arguments.test in {None, one.test}]
    return warehouse.messages.since(now - timedelta(days=arguments.days), arguments.test or "", MAX_MESSAGES)


def as_document(message: StoredMessage) -> dict[str, Any]:
    document = asdict(message)
    del document["content"]
    return document


def _lines(messages: Sequence[StoredMessage], *, pending: bool) -> Iterator[str]:
    if not messages:
        yield "No message is pending or held." if pending else "There are no messages."
    for one in messages:
        yield ""
        yield from _block(one)
    if len(messages) == MAX_MESSAGES and not pending:
        yield f"Only the newest {MAX_MESSAGES:,} messages are shown; choose fewer days, or a test."


def sender_lines(newest: SenderPass | None, state: SendersState, now: datetime) -> Iterator[str]:
    if newest is None:
        yield "No sender has run yet."
    else:
        failed = f": {printable(newest.detail)}" if newest.detail else ""
        done = f"{newest.sent} sent, {newest.pending} pending"
        yield f"The last sender ran at {minute(newest.timestamp)} ({printable(newest.sender)}): {done}{failed}"
    for problem in problems_of_senders(state, now):
        yield from wrapped(problem)


def _block(message: StoredMessage) -> Iterator[str]:
    test = printable(message.test) if message.test else "several tests"
    yield f"{minute(message.timestamp)}  {message.state:<10}  {test}"
    yield f"  {printable(message.subject)}"
    if message.state == MessageState.PENDING:
        sending = f"{printable(message.lease)} is sending it" if message.lease else ""
        tried = f"tried {message.attempts} times, " if message.attempts > 1 else ""
        yield f"  {tried}{sending or f'next attempt {minute(message.next_attempt)}'}"
    if message.held_because:
        waits = "" if message.held_because == IN_DIGEST else "waits for the digest: "
        yield f"  {waits}{printable(message.held_because)}"
    for name, result in sorted(message.channels.items()):
        tries = f" after {counted(result.attempts, 'attempt')}" if result.attempts > 1 else ""
        yield f"  {printable(name)}: {result.state}{tries}: {printable(result.detail)}"
