"""Deciding whether a run is news, saying it, and remembering that it was said."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.delivery import State, deliver
from ml_metrics.alerts.message import Occasion
from ml_metrics.alerts.policy import Incident, News, Standing, news_of
from ml_metrics.errors import MlMetricsError
from ml_metrics.notify.digest import MILD, is_single
from ml_metrics.reports import Plain, Troubles, plain_report, report_of, troubles_of
from ml_metrics.run_state import RunState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import Post
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.warehouse import Incident as StoredIncident
    from ml_metrics.warehouse import Warehouse

log = logging.getLogger(__name__)

HELD, DIGEST = "held", "digest"
"""The state and the channel of what waits."""
HOUR = timedelta(hours=1)
OVERDUE = Plain(Occasion.OVERDUE, "overdue:", "no end in sight")
UNTOLD = Plain(Occasion.BROKEN, "task:assert_success", "its documents cannot be read")


@dataclass(frozen=True, slots=True)
class Telling:
    """One run, and what people are told of it."""

    run: Run
    folder: RunFolder
    warehouse: Warehouse | None
    """None where it does not answer."""
    post: Post

    def tell(self, test: TestDefinition) -> News | None:
        """Decide whether this run is news, say it, and remember that it was said. Returns the news, or None."""
        gate, found = RunState(self.folder).gate, troubles_of(self.folder)
        well = gate is not None and not gate.reasons
        troubles = replace(found, at_once={}) if well else found
        alert = self.warehouse.incidents.find_open(self.run.test) if self.warehouse else None
        news = self._news(test, troubles, alert, well=well)
        warning = news is not None and news.occasion is Occasion.WARNING
        if news is None or (warning and self._told()):  # a message about this run told its warnings, too
            log.info("nothing new to tell about %s", self.run.test)
            return None
        told = set(alert.told) if alert else set()
        new_first = dict(sorted(troubles.at_once.items(), key=lambda trouble: trouble[0] in told))
        report = report_of(
            test,
            self.run,
            self.folder,
            news.occasion,
            troubles.warnings if warning else new_first,
            warehouse=self.warehouse,
            dashboard_url=self.post.dashboard_url,
        )
        if not warning:
            report = replace(report, warnings=(*report.warnings, *troubles.warnings.values()))
        message = compose(report, self.post.recipients_of(test.emails), self.post.sender_of(test))
        self.say(message, held=news.held)
        if not warning:
            self._remember(news.occasion, troubles.at_once)
        return news

    def tell_overdue(self, since: str, owner: str, emails: Sequence[str]) -> None:
        """Say once that the run has not ended in its time. How it ends is told as of any run."""
        how = self._how_far()
        queued = f" since {since}" if since else ""
        about = f"Run {self.run.run_id} of test `{self.run.test}`"
        sentence = f"{about} has been waiting or running{queued}, longer than it may. {how}"
        report = plain_report(self.run, owner, OVERDUE, sentence, self.post.dashboard_url)
        self.say(compose(report, self.post.recipients_of(tuple(emails)), self.post.sender))
        self._remember(Occasion.OVERDUE, {OVERDUE.name: sentence})

    def _how_far(self) -> str:
        try:
            begun = self.folder.read_workload() is not None
        except MlMetricsError as error:
            return f"Whether its workload has begun is not known: {error}."
        return (
            "Its workload has begun." if begun else "Its workload has not begun: no worker, pool slot or node took it."
        )

    def tell_plainly(self, test: TestDefinition, error: Exception) -> None:
        """Say that the run should be looked at, where its documents are such that no message could be made of them."""
        sentence = f"What became of run {self.run.run_id} could not be told ({type(error).__name__}): see its task log"
        report = plain_report(self.run, test.owner, UNTOLD, sentence, self.post.dashboard_url)
        self.say(compose(report, self.post.recipients_of(test.emails), self.post.sender_of(test)))

    def say(self, message: Message, *, held: str = "") -> None:
        """Deliver a message, or hold it for the digest: once on each channel, however often this is called.

        What was done stands in the run folder, too: the warehouse may be what is broken.
        """
        told = self._told()
        done = dict(told.get(message.key, {}))
        if held and DIGEST not in done:
            log.info("%s: waits for the digest: %s", message.subject, held)
            self._record(message, [(DIGEST, HELD, 0, held)])
            done[DIGEST] = HELD
        missing = [channel for channel in self._channels(held) if done.get(channel.name) != State.DELIVERED]
        attempted = deliver(message, missing, self.post.outbox, self.post.clock)
        self._record(message, ((one.channel, one.state, one.tries, one.detail) for one in attempted))
        done |= {one.channel: str(one.state) for one in attempted}
        try:
            self.folder.write("told", {**told, message.key: done})
        except MlMetricsError as error:
            log.warning("what was told cannot be remembered in the run folder: %s", error)

    def _channels(self, held: str) -> Sequence[Channel]:
        """What is asked at once. Where an owner's hour is full, those that keep books for each test still are."""
        if not held:
            return self.post.channels
        return [] if held in MILD else [channel for channel in self.post.channels if is_single(channel)]

    def _told(self) -> dict[str, dict[str, str]]:
        try:
            return self.folder.read("told") or {}
        except MlMetricsError as error:
            log.warning("what was told about this run before is not known: %s", error)
            return {}

    def _news(
        self, test: TestDefinition, troubles: Troubles, alert: StoredIncident | None, *, well: bool
    ) -> News | None:
        now = datetime.now(UTC)
        quiet = self._quiet(test, now)
        if quiet:
            log.info("%s is kept quiet %s", self.run.test, quiet)
            if self.warehouse is not None:
                # if it is still broken when the quarantine ends, that is news
                self.warehouse.incidents.close(self.run.test, self.run.key)
        told_already = self.warehouse.deliveries.count(test.owner, now - HOUR) if self.warehouse else 0
        standing = Standing(bool(quiet), told_already, self.post.mails_per_hour)
        incident = Incident(frozenset(alert.told), alert.acknowledged_by is not None) if alert else None
        news = news_of(troubles.at_once, troubles.warnings, incident, standing, well=well)
        if news is not None and news.occasion is Occasion.RECOVERED and not self._is_newest():
            log.info("an older run of %s is well; a newer one decides whether the test is", self.run.test)
            return None
        return news

    def _quiet(self, test: TestDefinition, now: datetime) -> str:
        """Until when and why the test is quarantined, by its file or by somebody on the dashboard; empty if not."""
        if test.quarantine is not None and test.quarantine.holds(now):
            return f"until {test.quarantine.until}: {test.quarantine.reason}"
        word = self.warehouse.quarantines.newest().get(self.run.test) if self.warehouse else None
        return f"until {word.until:%Y-%m-%d %H:%M} by {word.by}: {word.reason}" if word and word.holds(now) else ""

    def _is_newest(self) -> bool:
        """Whether no run of the test ended after this one: an old run that is judged again says nothing of today."""
        ended = RunState(self.folder).workload.ended_at
        newest = next(iter(self.warehouse.runs.newest(self.run.test, 1)), None) if self.warehouse else None
        return newest is None or newest.uuid == self.run.key or ended is None or newest.timestamp <= ended

    def _remember(self, occasion: Occasion, troubles: Mapping[str, str]) -> None:
        """Keep what was told, so that the next run of this test is news only if something changed."""
        if self.warehouse is None:
            return
        if occasion is Occasion.RECOVERED:
            self.warehouse.incidents.close(self.run.test, self.run.key)
            return
        names = sorted(troubles)
        fingerprint = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
        self.warehouse.incidents.report(self.run.test, self.run.key, fingerprint=fingerprint, reasons=names)

    def _record(self, message: Message, what: Iterable[tuple[str, str, int, str]]) -> None:
        from ml_metrics.warehouse import Delivery

        if self.warehouse is None:
            return
        for channel, state, attempts, detail in what:
            delivery = Delivery(
                message=message.key,
                channel=channel,
                state=str(state),
                timestamp=datetime.now(UTC),
                test=message.test,
                run_key=message.run_key,
                occasion=str(message.occasion),
                owner=message.owner,
                recipients=message.recipients,
                subject=message.subject,
                reasons=tuple(reason.sentence for reason in message.reasons),
                attempts=attempts,
                detail=detail,
            )
            try:
                self.warehouse.deliveries.record(delivery)
            except MlMetricsError as error:
                log.warning("what became of the message on %s is not recorded: %s", channel, error)
