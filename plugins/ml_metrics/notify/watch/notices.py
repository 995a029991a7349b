"""The messages about files, DAGs and schedules that broke or work again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import Fact, MessageKind, Notice
from ml_metrics.alerts.pages import page_of_test
from ml_metrics.reports import short_name
from ml_metrics.values import short_hash
from ml_metrics.warehouse.known_tests import IMPORT_ERROR, MISSED, MISSING, PAUSED, RENAMED, UNREADABLE, VANISHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.alerts.message import Message
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import KnownTest

HEADLINES = {
    UNREADABLE: "{} does not run: its file cannot be read",
    VANISHED: "{} vanished: no file defines it any more",
    RENAMED: "{} has a new name",
    PAUSED: "{} was paused",
    MISSING: "{} does not run: Airflow has no DAG of it",
    MISSED: "{} did not run as scheduled",
    IMPORT_ERROR: "{} does not run: Airflow cannot import its DAG file",
}
ADVICE = {
    UNREADABLE: "No run starts until the file is fixed. `ml-metrics validate FILE` lists all its problems.",
    VANISHED: "If it was removed on purpose, `ml-metrics ack {}` closes this incident.",
    RENAMED: "`ml-metrics ack {}` closes this incident.",
    PAUSED: "If that is on purpose, `ml-metrics ack {}` ends the matter.",
    MISSED: "Look at its DAG in Airflow: whether it has a queued run, and whether the scheduler is alive.",
    IMPORT_ERROR: "None of the tests in that file runs until Airflow can import it again.",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one test: new problems, or that the last one is gone."""

    test: KnownTest
    """With its problems, if it has any."""
    new: tuple[str, ...] = ()
    """The names of the new problems; empty if the test works again."""
    last_good: str = ""
    """The last commit in which its file could be read, if that is known."""

    @property
    def works_again(self) -> bool:
        """Whether the test works again."""
        return not self.new


def message_about(changes: Sequence[Change], recipients: Sequence[str], mail: MailSettings, mark: str) -> Message:
    """Return the message about changes of the same kind, of tests of one owner. `mark` makes its key unique."""
    works_again = changes[0].works_again
    only = changes[0] if len(changes) == 1 else None
    notice = Notice(
        headline=_headline(changes),
        sentences=_sentences(only) if only else (),
        items=_facts(only) if only else tuple(_row(change, mail) for change in changes),
        buttons=(_button(only.test.test if only else "", mail),),
        test=only.test.test if only else "",
        owner=changes[0].test.owner,
        is_good=works_again,
    )
    stated = [(change.test.test, change.new) for change in changes]
    digest = short_hash(repr((stated, tuple(recipients))))
    sender = (only.test.sender if only else "") or mail.sender
    key = f"watch-{mark}-{'mended' if works_again else 'broken'}-{digest}"
    return compose_notice(key, MessageKind.FILE, notice, recipients, sender)


def _headline(changes: Sequence[Change]) -> str:
    first = changes[0]
    if len(changes) > 1:
        what = "work again" if first.works_again else "are not running as defined"
        return f"{len(changes)} tests of {first.test.owner} {what}"
    if first.works_again:
        was = " and ".join(map(short_name, first.test.reported))
        return f"{first.test.test} works again (was: {was})"
    return HEADLINES[first.new[0]].format(first.test.test)


def _sentences(change: Change) -> tuple[str, ...]:
    test = change.test
    if change.works_again:
        return ("Its file, its DAG and its schedule are valid. The next run starts as scheduled.",)
    advice = (ADVICE[name].format(test.test) for name in change.new if name in ADVICE)
    return (*(test.problems[name] for name in change.new), *advice)


def _facts(change: Change) -> tuple[Fact, ...]:
    test = change.test
    facts = {
        "owner": test.owner,
        "file": test.file,
        "schedule": test.schedule or "none",
        "last good commit": change.last_good,
        "DAG file": test.dag_file,
    }
    return tuple(Fact(name, value) for name, value in facts.items() if value)


def _row(change: Change, mail: MailSettings) -> Fact:
    if change.works_again:
        return Fact(change.test.test, "works again", _page(change.test.test, mail))
    what = "; ".join(change.test.problems[name] for name in change.new)
    good = f"; last good commit: {change.last_good}" if change.last_good else ""
    return Fact(change.test.test, f"{what}{good}", _page(change.test.test, mail))


def _button(test: str, mail: MailSettings) -> Fact:
    return Fact("dashboard", "Open the test" if test else "Open the dashboard", _page(test, mail))


def _page(test: str, mail: MailSettings) -> str:
    if not mail.dashboard_url:
        return ""
    return page_of_test(mail.dashboard_url, test) if test else f"{mail.dashboard_url}/"
