"""How runs ended, beside how they should, and the table of all of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes import client

from campaigns.ends.faults import Own
from standalone_airflow import wait_until
from workload_ends import core, recorded_workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_home import Home
    from campaigns.ends.faults import Case


@dataclass(frozen=True, slots=True)
class End:
    """The end of one run, and what is wrong with it."""

    case: Case
    reason: str | None
    wrong: tuple[str, ...]
    held: int
    """How often a slot was held when the run was looked at before its fault."""
    looks: int


def end_of(home: Home, case: Case, state: str, slots: list[str | None]) -> End:
    """Compare folder, rows, messages and cluster with what befell a run."""
    workload = recorded_workload(home, case.test)
    held = sum(one != "deferred" for one in slots)
    wrong = [
        *_wrong_status(case, state, workload),
        *_wrong_records(home, case, workload),
        *([f"slots held {held} times"] if held and case.hosts > 1 else []),
        *_left(home, case.test),
    ]
    return End(case, workload["failure_reason"], tuple(wrong), held, len(slots))


def _wrong_status(case: Case, state: str, workload: dict[str, Any]) -> list[str]:
    good = case.own is Own.NOTHING
    wanted = ("success", "success") if good else ("failed", "failure")
    wrong = [] if (state, workload["status"]) == wanted else [f"{state}, {workload['status']} instead of {wanted}"]
    if workload["failure_reason"] not in case.reasons:
        wrong.append(f"{workload['failure_reason']} ({workload['detail']})")
    if workload["attempts"] != 1:
        wrong.append(f"{workload['attempts']} attempts")
    return wrong


def _wrong_records(home: Home, case: Case, workload: dict[str, Any]) -> list[str]:
    with home.warehouse() as warehouse:
        rows = [(job.job_status, job.failure_reason) for job in warehouse.runs.newest(case.test)]
    wrong = [] if rows == [(workload["status"], workload["failure_reason"])] else [f"rows {rows}"]
    messages = 0 if case.own is Own.NOTHING else 1
    with suppress(AssertionError):  # messages are sent after the run
        wait_until(lambda: len(home.mails(case.test)) >= messages, "the mail is sent", 120)
    if len(home.mails(case.test)) != messages:
        wrong.append(f"{len(home.mails(case.test))} messages instead of {messages}")
    (folder,) = (home.runs / case.test).iterdir()
    if len(list(folder.glob("began-*"))) != case.hosts:
        wrong.append("not every host ran once")
    return wrong


def _left(home: Home, test: str) -> list[str]:
    api, label = core(home), f"ml-metrics/test={test}"
    batch = client.BatchV1Api(api.api_client)

    def left() -> list[str]:
        found = [
            *api.list_namespaced_pod("default", label_selector=label).items,
            *batch.list_namespaced_job("default", label_selector=label).items,
        ]
        return [one.metadata.name for one in found]

    try:
        wait_until(lambda: not left(), "nothing is left", 60)
    except AssertionError:
        return [f"left: {', '.join(left())}"]
    return []


COLUMNS = ("fault of the run", "hosts", "at the same time", "runs", "right ends", "reasons", "slots held")


def table(ends: Iterable[End]) -> str:
    """Return the figures as a table of Markdown."""
    groups: dict[tuple[str, int, str], list[End]] = {}
    every = list(ends)
    for one in every:
        groups.setdefault((one.case.own, one.case.hosts, one.case.shared), []).append(one)
    rows = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    for (own, hosts, shared), found in sorted(groups.items()):
        rows.append(_row(own, str(hosts), shared, found))
    return "\n".join([*rows, _row("all", "", "", every)])


def _row(own: str, hosts: str, shared: str, ends: list[End]) -> str:
    reasons = ", ".join(sorted({one.reason or "success" for one in ends}))
    right = sum(not one.wrong for one in ends)
    held = f"{sum(one.held for one in ends)} of {sum(one.looks for one in ends)} looks"
    return f"| {own} | {hosts} | {shared} | {len(ends)} | {right} | {reasons} | {held} |"
