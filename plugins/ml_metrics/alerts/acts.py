"""The actions of a person on duty about an incident, as named in mails, the inbox and Airflow's questions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Act(StrEnum):
    """An action that a button of a message offers. Its link only leads to the page that confirms the action."""

    ACCEPT = "accept"
    REGRESSION = "regression"
    RERUN = "rerun"
    ACKNOWLEDGE = "acknowledge"

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    Act.ACCEPT: "Accept the new level",
    Act.REGRESSION: "It is a regression",
    Act.RERUN: "Measure again",
    Act.ACKNOWLEDGE: "Acknowledge",
}
ANSWERS = (Act.ACCEPT, Act.REGRESSION, Act.RERUN)
"""The possible answers to a question about a change."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a person about an incident."""

    test: str
    dag_id: str
    incident: str
    levels: dict[str, str]
    """The metrics that the question is about, whatever joins the incident meanwhile, each with its first bad run."""
    subject: str = ""
    body: str = ""

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("test", "dag_id", "incident", "levels")}
