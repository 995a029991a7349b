"""The question to a person in Airflow about a change, and what happens with the answer.

The answer uses the same functions as the inbox and the command line, so it makes the same row.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.acts import Act, Question
from ml_metrics.errors import ConfigError, NothingToAskError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.warehouse import Incident, Warehouse

DAY = timedelta(days=1)
"""A message is decided a little before its incident is opened."""
MOST_SENTENCES = 5
MOST_METRICS = 50
"""The levels that one answer accepts: the others are accepted on the page of the test."""
MAX_REASON = 1000


def levels_of(opened: Warehouse, incident: Incident) -> dict[str, str]:
    """Return the metrics whose new level can be accepted, each with the first run of the incident that has a value."""
    from ml_metrics.reports.problems import changed_metric_of

    left = list(dict.fromkeys(filter(None, map(changed_metric_of, incident.reported))))[:MOST_METRICS]
    levels: dict[str, str] = {}
    for run in incident.run_keys:
        place = opened.runs.place(run) if left else None
        found = opened.metrics.named_of_run(place, left) if place else {}
        levels |= {metric: run for metric in left if metric in found and found[metric].value is not None}
        left = [metric for metric in left if metric not in levels]
    return levels


def incident_to_ask_about(test: str) -> str:
    """Return the open incident of a test. Raises NothingToAskError with the reason if there is nothing to ask."""
    from ml_metrics.connections import warehouse

    with warehouse() as opened:
        incident = opened.incidents.find_open(test)
        if incident is None:
            raise NothingToAskError("no incident of the test is open")
        _check_unanswered(opened, incident, levels_of(opened, incident))
        return incident.opened_by


def question_about(test: str, incident: str) -> Question:
    """Return the question about an incident. Raises NothingToAskError with the reason if there is nothing to ask."""
    from ml_metrics.connections import warehouse
    from ml_metrics.settings import Settings

    with warehouse() as opened:
        found = _open_incident(opened, test, incident)
        levels = levels_of(opened, found)
        _check_unanswered(opened, found, levels)
        newest = opened.runs.latest(test)
        dag_id = (newest.dag_id if newest else None) or test
        subject, body = _texts(opened, found, levels, Settings.load().dashboard_url)
    return Question(test, dag_id, incident, levels, subject, body)


def check_unanswered(document: Mapping[str, Any]) -> None:
    """Raise NothingToAskError with the reason if an incident was closed or answered elsewhere."""
    from ml_metrics.connections import warehouse

    question = Question(**document)
    with warehouse() as opened:
        _check_unanswered(opened, _open_incident(opened, question.test, question.incident), question.levels)


def store_answer(document: Mapping[str, Any], answer: str, *, by: str, reason: str) -> str:
    """Store an answer by the name of the person who gave it, and return a sentence about that. Repeating it is safe.

    Raises NothingToAskError with the reason if the incident was closed meanwhile.
    """
    from ml_metrics.connections import warehouse

    question, stated = Question(**document), reason.strip()[:MAX_REASON]
    with warehouse() as opened:
        _open_incident(opened, question.test, question.incident)
        if answer == Act.REGRESSION:
            opened.incidents.assess(question.test, question.incident, is_regression=True, by=by, note=stated)
            return f"{by} says that it is a regression"
        if answer == Act.ACCEPT:
            for metric, run in question.levels.items():
                opened.acceptances.add(run, metric, reason=stated or "answered in Airflow", by=by)
            return f"{by} accepted the level of {', '.join(question.levels)}"
    raise ConfigError(f"{answer!r} is not an answer that is stored")


def _open_incident(opened: Warehouse, test: str, incident: str) -> Incident:
    found = opened.incidents.find_open(test)
    if found is None or found.opened_by != incident:
        raise NothingToAskError("the incident is closed")
    return found


def _check_unanswered(opened: Warehouse, incident: Incident, levels: Mapping[str, str]) -> None:
    if not levels:
        raise NothingToAskError("the incident is about no value that could be accepted")
    if incident.is_regression is not None:
        raise NothingToAskError(f"{incident.assessed_by} has said what the incident is")
    accepted = {(one.metric, one.run_key) for one in opened.acceptances.of_test(incident.test)}
    if set(levels.items()) <= accepted:
        raise NothingToAskError("the new level is accepted")


def _texts(opened: Warehouse, incident: Incident, levels: Mapping[str, str], dashboard_url: str) -> tuple[str, str]:
    """Return the subject, and the body as Markdown: what broke, by how much, since when, and what each answer does."""
    from ml_metrics.alerts.compose import PREFIX
    from ml_metrics.alerts.markdown import escaped
    from ml_metrics.alerts.pages import page_of_incident, page_of_run
    from ml_metrics.alerts.render import one_line
    from ml_metrics.reports.problems import short_name

    opening = opened.messages.by_key([incident.opened_by], incident.opened_at - DAY).get(incident.opened_by)
    names = [short_name(one) for one in incident.reported]
    subject = opening.subject.removeprefix(PREFIX) if opening else f"{incident.test}: {', '.join(names)}"
    sentences = list(opening.reasons) if opening else names
    more = len(sentences) - MOST_SENTENCES
    run = min(levels.values(), key=incident.run_keys.index)
    lines = [f"- {escaped(one)}" for one in sentences[:MOST_SENTENCES]]
    lines += [f"- and {more:,} more"] if more > 0 else []
    facts = [
        f"Since {incident.opened_at:%Y-%m-%d %H:%M} UTC.",
        f"[First bad run]({page_of_run(dashboard_url, run)})",
        f"[The incident]({page_of_incident(dashboard_url, incident.test, run)})",
    ]
    facts += [escaped(f"Cause: {incident.cause}.")] if incident.cause else []
    answers = (
        f"- **{Act.ACCEPT.label}**: later runs are compared with {escaped(', '.join(levels))} as of the first bad run.",
        f"- **{Act.REGRESSION.label}**: that is stored, and the incident stays open until the test recovers.",
        f"- **{Act.RERUN.label}**: a run is started. If its value is as bad, you are asked again.",
    )
    return one_line(subject), "\n".join((*lines, "", " · ".join(facts), "", *answers))
