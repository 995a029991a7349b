"""Acknowledge the open alert of a test: somebody is working on it. Further failures wait for the next digest. A
test that vanished or was renamed is then forgotten.

--assign, --regression and --no-regression do this instead, the last two even after the test has recovered.
--no-regression closes an open alert as a false alarm, and accepts the levels that it is about.

examples:
  ml-metrics ack tf-mnist-example-cpu --note "a bad image, fixed by Friday"
  ml-metrics ack tf-mnist-example-cpu --assign vera
  ml-metrics ack tf-mnist-example-cpu --no-regression --note "a slow disk"
"""

from __future__ import annotations

import sys
from dataclasses import replace

from ml_metrics.alerts import short_name
from ml_metrics.core.text import printable
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_by, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.output import give
from ml_metrics.warehouse import DEFINITION, Incident, Warehouse


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "the name of the test")
    add_value(parser, "--note", "TEXT", "a note for later readers", str, default="")
    instead = parser.add_mutually_exclusive_group()
    add_value(instead, "--assign", "PERSON", "assign it; '' for nobody", str)
    instead.add_argument("--regression", action="store_true", default=None, help="it is or was a regression")
    instead.add_argument(
        "--no-regression",
        action="store_false",
        dest="regression",
        default=None,
        help="it is not; needs --note",
    )
    add_by(parser)
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    if arguments.regression is False and not arguments.note.strip():
        raise UsageError("--no-regression: state the reason with --note")
    with open_chosen(arguments) as warehouse:
        before = _open_ones(warehouse, arguments.test)
        is_new, done = _say(warehouse, arguments)
        found = _open_ones(warehouse, arguments.test) or before
        if not done:
            require_test(warehouse, arguments.test)
    test = printable(arguments.test)
    reasons = printable(", ".join(short_name(reason) for one in found for reason in one.reasons))
    lines = [f"{done}: {test}{f': {reasons}' if reasons else ''}"] if done else []
    give(arguments, {"alert": found[0].document() if found else None, "new": is_new}, lines)
    if not done and not arguments.json:
        print(f"{test} has no open alert; `ml-metrics alerts` lists the open ones", file=sys.stderr)
    return 0 if done else 1


def _open_ones(warehouse: Warehouse, test: str) -> list[Incident]:
    """Those about its runs, and about its file, DAG or schedule."""
    found = map(warehouse.incidents.find_open, (test, f"{DEFINITION}{test}"))
    return [replace(one, test=test) for one in found if one is not None]


def _say(warehouse: Warehouse, arguments: Arguments) -> tuple[bool, str]:
    """Whether the user's answer is new, and what was done; empty if there is no incident."""
    test, by, incidents = arguments.test, arguments.by, warehouse.incidents
    both = (test, f"{DEFINITION}{test}")
    if arguments.regression is not None:
        return _assess(warehouse, test, is_regression=arguments.regression, by=by, note=arguments.note.strip())
    if arguments.assign is not None:
        person = arguments.assign.strip()
        is_new = True in [incidents.assign(name, person, by=by) for name in both]
        return is_new, f"Assigned to {printable(person) or 'nobody'} by {printable(by)}" if is_new else ""
    is_new = True in [incidents.acknowledge(name, by=by, note=arguments.note) for name in both]
    first = next(iter(_open_ones(warehouse, test)), None)
    done = "Acknowledged" if is_new else "Already acknowledged"
    return is_new, f"{done} by {printable(first.acknowledged_by or '')}" if first else ""


def _assess(warehouse: Warehouse, test: str, *, is_regression: bool, by: str, note: str) -> tuple[bool, str]:
    """The open incident of a test, or else the last one."""
    if not is_regression:
        from ml_metrics.airflow import load_mail_settings
        from ml_metrics.alerts import close_as_no_regression

        closed = close_as_no_regression(warehouse, test, by=by, reason=note, load_mail_settings=load_mail_settings)
        if closed is not None:
            levels = f", and the level of {printable(', '.join(closed))} accepted" if closed else ""
            return True, f"Closed as no regression by {printable(by)}{levels}"
    incident = warehouse.incidents.find_open(test)
    key = incident.opened_by if incident else warehouse.incidents.last_closed(test)
    is_new = bool(key) and warehouse.incidents.assess(test, key, is_regression=is_regression, by=by, note=note)
    answer = "A regression" if is_regression else "No regression"
    return is_new, f"{answer}, says {printable(by)}" if is_new else ""
