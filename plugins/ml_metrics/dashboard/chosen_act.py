"""The incident and the action that the button of a message chose. The page offers it; a form carries it out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.alerts.acts import Act
from ml_metrics.dashboard.query import choice, text
from ml_metrics.notify.questions import levels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.dashboard.inbox import Entry, Member
    from ml_metrics.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Chosen:
    """One test, whose incident is shown alone."""

    test: str
    incident: str = ""
    """The incident that the action is about."""
    act: Act | None = None
    """The action to confirm; None if none was chosen, or if it is not possible."""
    notice: str = ""
    """Why the action is not offered."""
    levels: dict[str, list[str]] = field(default_factory=dict)
    """The metrics whose level is accepted, by the first bad run of each."""

    def shows(self, entry: Entry) -> bool:
        """Whether an entry is about the test."""
        return any(member.test == self.test for member in entry.members)


def chosen_of(warehouse: Warehouse, query: Mapping[str, str], members: Iterable[Member]) -> Chosen | None:
    """Return the choice in a page's address among the open incidents that the user may see; None for all of them."""
    test, run, wanted = text(query, "test"), text(query, "run"), choice(query, "act", ("", *Act))
    if not test:
        return None
    found = sorted((one for one in members if one.test == test), key=lambda one: one.incident.test != test)
    if not found:
        return Chosen(test, notice=f"No incident of {test} is open.")
    member, act = found[0], Act(wanted) if wanted else None
    if run and run not in member.incident.run_keys:
        return Chosen(test, notice="The open incident does not name the run of your message: check it first.")
    if act is None:
        return Chosen(test)
    levels = _by_run(levels_of(warehouse, member.incident)) if act is Act.ACCEPT else {}
    notice = _reason_against(act, member, levels)
    return Chosen(test, notice=notice) if notice else Chosen(test, member.incident.opened_by, act, levels=levels)


def _reason_against(act: Act, member: Member, levels: Mapping[str, list[str]]) -> str:
    if act is Act.ACKNOWLEDGE and member.incident.acknowledged_by:
        return f"{member.incident.acknowledged_by} has acknowledged the incident."
    if act is not Act.ACKNOWLEDGE and member.letter is None:
        return "The incident is about the file or the DAG of the test, and no run shows whether it works again."
    if act is Act.ACCEPT and not levels:
        return "The incident is about no value that could be accepted."
    return ""


def _by_run(levels: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for metric, run in levels.items():
        grouped[run].append(metric)
    return dict(grouped)
