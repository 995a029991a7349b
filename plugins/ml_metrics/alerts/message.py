"""The content of a message, before a channel formats and sends it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from urllib.parse import urlencode


class MessageKind(StrEnum):
    """The event that a message reports."""

    BROKEN = "broken"
    WORSE = "worse"
    RECOVERED = "recovered"
    OVERDUE = "overdue"
    """The run has not finished in time; it may not even have started."""
    WARNING = "warning"
    """Only conditions of severity `warn` failed. The message waits for the digest."""
    DIGEST = "digest"
    """The mail of the morning, with what was held back."""
    HEARTBEAT = "heartbeat"
    TRIAL = "trial"
    """The verdict of a run that a user started with changed keys."""
    INCIDENT = "incident"
    """Further tests joined an incident."""
    MASS = "mass"
    """Many tests failed within a short time."""
    FILE = "file"
    """A test file broke or vanished, or a test was paused."""
    COST = "cost"
    """The cost of the runs of a week."""
    ANSWER = "answer"
    """The answer of a comparison or a search."""
    RESULT = "result"
    """The result of a run, for tracking servers."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A row in a message's table."""

    name: str
    value: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart inside the HTML of a mail."""

    name: str
    """The identifier in the HTML: letters, digits and dashes, never user input."""
    png: bytes
    alt: str


@dataclass(frozen=True, slots=True)
class Log:
    """The last lines of a container's log."""

    title: str
    lines: tuple[str, ...]
    note: str = ""
    """Why there are no lines, or not all."""
    error: str = ""
    """The error for which the container failed; empty if no line looks like one."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a run."""

    name: str
    """The same in each run, without numbers: `out_of_bounds:loss_final`."""
    short: str
    """The text in a subject: `loss_final +74 % to 2.08`."""
    sentence: str
    """All of it: `loss_final 2.08, must be below 0.05 (+74 % against the baseline)`."""
    facts: tuple[Fact, ...] = ()
    """What the headline does not contain."""
    picture: Picture | None = None
    log: Log | None = None
    known: bool = False
    """Whether an earlier message about the incident reported it."""


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a message about one run."""

    kind: MessageKind
    test: str
    run_key: str
    run_id: str
    owner: str
    problems: tuple[Problem, ...]
    facts: tuple[Fact, ...]
    suspects: tuple[str, ...] = ()
    """When each problem started, and what changed at that time."""
    warnings: tuple[str, ...] = ()
    warned: tuple[Problem, ...] = ()
    """The problems that only warn, beside those that the message is about."""
    headline: str = ""
    """For a run without problems: what works again."""
    start: str = ""
    """Since when the first problem is there, and what changed: ` since 12 Nov; image 2.1.0 → 2.2.0`. Of a recovery:
    ` after 4 days`."""
    sentences: tuple[str, ...] = ()
    """The problems that ended and for how long they lasted, or those that were reported before."""
    first: str = ""
    """What to do first."""
    values: tuple[Fact, ...] = ()
    """The current values of the metrics of a recovery."""
    counted: tuple[str, ...] = ()
    """How many problems of each kind there are, also those that are not listed."""
    total: int = 0
    """The number of all problems, or of all metrics that recovered; 0 if all are listed."""
    buttons: tuple[Fact, ...] = ()
    """The most useful link, and what a person can do. The text of each is its `value`."""


@dataclass(frozen=True, slots=True)
class Notice:
    """The content of a message that is not a report about one run."""

    headline: str
    """What happened, in one line. It is the subject, too: the important words come first."""
    sentences: tuple[str, ...] = ()
    """Paragraphs below the headline: what is known, and what to do first."""
    items: tuple[Fact, ...] = ()
    """Rows of a table, such as the members of an incident. A row may have a link."""
    buttons: tuple[Fact, ...] = ()
    """At most two: the text of each is its `value`."""
    test: str = ""
    run_key: str = ""
    owner: str = ""
    is_good: bool = False
    """Whether it reports that something works again."""
    label: str = ""
    """The line above the headline; empty for that of its kind."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A problem in the short form for channels without tables."""

    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Message:
    """A composed message in every format that a channel may need."""

    key: str
    """Identifies the event, so that a callback that runs twice sends one message."""
    kind: MessageKind
    subject: str
    text: str
    html: str
    recipients: tuple[str, ...]
    test: str = ""
    """Empty for a message about several tests, as are the two that follow."""
    run_key: str = ""
    owner: str = ""
    sender: str = ""
    """Empty for the channel's default."""
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    """What only warns, beside the reasons."""
    links: tuple[Fact, ...] = ()
    pictures: tuple[Picture, ...] = ()
    incident: str = ""
    """Identifies the incident for services that open one and close it on recovery. Empty for the test's own."""


def page_of_test(dashboard_url: str, test: str) -> str:
    return f"{dashboard_url}/test?{urlencode({'test': test}, errors='replace')}"


def page_of_incident(dashboard_url: str, test: str, run_key: str, act: str = "") -> str:
    """The open incident of a test that a run belongs to, with an act to confirm."""
    chosen = {"test": test, "run": run_key} | ({"act": act} if act else {})
    return f"{dashboard_url}/inbox?{urlencode(chosen, errors='replace')}"


def page_of_cause(dashboard_url: str, cause: str) -> str:
    """The incidents with a cause; all incidents if it is empty."""
    words = {"q": cause[:200]} if cause else {}
    return f"{dashboard_url}/inbox{'?' if words else ''}{urlencode(words, errors='replace')}"


def page_of_run(dashboard_url: str, run_key: str) -> str:
    return f"{dashboard_url}/run?{urlencode({'run': run_key})}"


TRACKERS = ("mlflow",)
"""The channels of tracking servers. They get the result of every run, and no other message."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run measured and how it was judged. Texts are short and printable, and values are finite."""

    test: str
    run_key: str
    run_id: str
    deployment: str
    verdict: str
    """`pass`, `fail`, ..., or empty if the run was not judged."""
    passed: bool
    reasons: str
    """Why it failed, in one line."""
    link: str
    began_at: int
    ended_at: int
    """In milliseconds since 1970."""
    facts: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    """By metric: the outcome and the reason."""
    tracked: dict[str, str] = field(default_factory=dict)
    """By tracking server: the run that the workload says it logged to. It is not to be trusted."""

    def text(self) -> str:
        return json.dumps(asdict(self))


def from_text(text: str) -> Result | None:
    """None if the document of the message was lost, and its text was made anew."""
    try:
        return Result(**json.loads(text))
    except (TypeError, ValueError):
        return None
