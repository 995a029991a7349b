"""What a campaign counts: which messages were decided, and which arrived how often and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from campaigns.messages.mail_servers import Taken

KILL_SECONDS = 3.0
"""A process that is killed so close to the moment when a server took its message may not have recorded that."""


@dataclass(frozen=True)
class Decided:
    """One message of one run."""

    key: str
    at: float


@dataclass
class Outcome:
    """The figures of one fault."""

    fault: str
    runs: int = 0
    kills: int = 0
    decided: int = 0
    undecided: list[str] = field(default_factory=list)
    """Runs that are without a message, though they are broken."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    """Messages that arrived once more although every answer to them had arrived."""
    copies: int = 0
    """Further arrivals of messages, one at most for each answer that was lost."""
    early: list[str] = field(default_factory=list)
    """Messages that were taken by a server before they were durable."""
    late: list[str] = field(default_factory=list)
    """Messages that arrived later than two periods of the sender after the fault."""
    longest: float = 0.0
    """The longest time from the end of the fault, or the decision if that was later, in periods of the sender."""

    @property
    def problems(self) -> dict[str, list[str]]:
        found = {name: getattr(self, name) for name in ("undecided", "lost", "doubled", "early", "late")}
        return {name: keys for name, keys in found.items() if keys}

    def add(self, other: Outcome) -> None:
        """Add the figures of another wave of the same fault."""
        for name in ("runs", "kills", "decided", "copies", "undecided", "lost", "doubled", "early", "late"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest = max(self.longest, other.longest)


ALLOWED_PERIODS = 2.0


def count(
    fault: str,
    expected: Mapping[str, int],
    decided: Iterable[Decided],
    taken: Sequence[Taken],
    *,
    kills: Sequence[tuple[float, str]],
    fault_ended: float,
    period: float,
) -> Outcome:
    """Count one wave. `expected` is the number of messages that each run must lead to, by its run key.

    `kills` are the times of kills, each with the DAG whose process was killed.
    """
    found = {one.key: one for one in decided}
    outcome = Outcome(fault, runs=len(expected), kills=len(kills), decided=len(found))
    for run_key, messages in expected.items():
        own = [key for key in found if key.startswith(run_key)]
        outcome.undecided += [run_key] * (messages - len(own))
        outcome.doubled += own[messages:]
    arrivals: dict[str, list[Taken]] = {key: [] for key in found}
    for one in sorted(taken, key=lambda each: each.at):
        arrivals.setdefault(one.key, []).append(one)
    for key, all_of_it in arrivals.items():
        outcome.early += [key for one in all_of_it if not one.durable]
        if not all_of_it:
            outcome.lost.append(key)
            continue
        began = max(fault_ended, found[key].at if key in found else 0.0)
        delay = (all_of_it[0].at - began) / period
        outcome.longest = max(outcome.longest, delay)
        if delay > ALLOWED_PERIODS:
            outcome.late.append(key)
        further = len(all_of_it) - 1
        lost_answers = sum(one.answer_lost or killed_then(one.at, kills) for one in all_of_it[:-1])
        outcome.copies += min(further, lost_answers)
        outcome.doubled += [key] * (further - lost_answers)
    return outcome


def killed_then(moment: float, kills: Sequence[tuple[float, str]]) -> bool:
    return any(abs(at - moment) <= KILL_SECONDS for at, _ in kills)


COLUMNS = ("fault", "runs", "kills", "decided", "lost", "doubled", "copies", "too early", "longest delay, in periods")
"""Of the table: `copies` are those after a lost answer, `too early` is taken before it was durable."""


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the figures as a table of Markdown."""
    rows = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    total = Outcome("all")
    each = list(outcomes)
    for one in each:
        total.add(one)
    for one in [*each, total]:
        lost = len(one.lost) + len(one.undecided)
        cells = (one.fault, one.runs, one.kills, one.decided, lost, len(one.doubled), one.copies, len(one.early))
        rows.append(f"| {' | '.join(map(str, cells))} | {one.longest:.2f} |")
    return "\n".join(rows)
