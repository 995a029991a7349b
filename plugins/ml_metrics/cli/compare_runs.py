"""Measures both versions of a comparison in turns, by trials or by a command, until each metric is decided."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.cli.arguments import UsageError
from ml_metrics.cli.calibration_loop import loop_seconds
from ml_metrics.cli.measuring import journal_path, measured, show_journal
from ml_metrics.cli.trial_checks import check_trial, past_values
from ml_metrics.compare.expected import expectation
from ml_metrics.compare.host_change import apart, changed_at, note_of_change, notes_of_hosts
from ml_metrics.compare.journal import journal_of
from ml_metrics.compare.plan import BASE, BLOCK, CANDIDATE, MeasuredRun, Plan, Step, answers, next_step
from ml_metrics.errors import UnreadableInputError
from ml_metrics.experiments.past_versions import IMAGE
from ml_metrics.experiments.trial_run import node_of
from ml_metrics.values import finite, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from ml_metrics.cli.measuring import Measured
    from ml_metrics.compare.answer import Compared
    from ml_metrics.config.metric_facts import MetricFacts


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the journal: one run, and what the calibration loop took before it."""

    run: MeasuredRun
    seconds: float | None = None
    reason: str = ""
    """Why nothing was measured."""

    def document(self) -> dict[str, Any]:
        """Return the line as JSON."""
        return {**asdict(self.run), "loop_seconds": self.seconds, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Ended:
    """A comparison that has ended."""

    found: list[Compared]
    step: Step
    notes: tuple[str, ...]
    """What limits the answer: runs that broke, hosts that changed."""


def compared_runs(arguments: argparse.Namespace, facts: Mapping[str, MetricFacts]) -> Ended | None:
    """Compare, and write each run to the journal; only state the plan, and return None, if that was asked for."""
    if arguments.base == arguments.candidate:
        raise UsageError(f"--base and --candidate are both {arguments.base}: there is nothing to compare")
    parameter = arguments.parameter or IMAGE
    plan = Plan(arguments.effect, arguments.max_runs, tuple(arguments.metric or ()))
    versions = {BASE: arguments.base, CANDIDATE: arguments.candidate}
    if arguments.test:
        check_trial(arguments.test, parameter, [*versions.values()])
    question = {**asdict(plan), **versions, "test": arguments.test}
    question |= {"parameter": parameter} if parameter != IMAGE else {}
    path = journal_path("compare", arguments.journal, {**question, "run": arguments.run})
    if arguments.dry_run or not path.exists():
        past = past_values(arguments, arguments.metric) if arguments.test else {}
        print(f"planned: {printable(expectation(plan, past))}", file=sys.stderr)
    if arguments.dry_run:
        return None
    with journal_of(question, path) as journal:
        show_journal(journal, arguments.journal)
        lines = [_line(f"{path}:{number}", line) for number, line in enumerate(journal.lines, start=2)]
        while (step := next_step(plan, _runs(lines, plan.effect))).runs:
            arm = step.runs[0]
            block = lines[len(lines) // BLOCK * BLOCK :] if arguments.same_node else []
            node = node_of(line.run.host for line in block)
            lines.append(_made(arguments, arm, (parameter, versions[arm]), node))
            journal.add(lines[-1].document())
            _report(plan, len(lines), lines[-1], versions[arm])
    runs = _runs(lines, plan.effect)
    print(f"{len(lines)} runs: {step.reason}", file=sys.stderr)
    if not (found := answers(plan, runs, facts)):
        raise UsageError(f"nothing was measured: {step.reason}{_reasons(lines)}")
    return Ended(found, step, tuple(_notes(lines, versions, plan.effect)))


def _runs(lines: Sequence[Line], effect: float) -> list[MeasuredRun]:
    """Return the runs, those before and after a change of the host apart."""
    runs, changed = [line.run for line in lines], _changed(lines, effect)
    return apart(runs, changed[0]) if changed else runs


def _changed(lines: Sequence[Line], effect: float) -> tuple[int, float] | None:
    """Return where the host changed and by what factor; None if the time of the loop is not known of every run."""
    known = [line.seconds for line in lines if line.seconds is not None]
    return changed_at([line.run for line in lines], known, effect) if len(known) == len(lines) else None


def _made(arguments: argparse.Namespace, arm: str, asked: tuple[str, str], node: str) -> Line:
    """Make one run of an arm. `asked`: the parameter and its version."""
    seconds = None if arguments.test else loop_seconds()
    found = _measured(arguments, *asked, node)
    return Line(MeasuredRun(arm, found.values, found.host), seconds, found.reason)


def _measured(arguments: argparse.Namespace, parameter: str, version: str, node: str) -> Measured:
    if arguments.test:
        from ml_metrics.cli.trials import measured_trial

        return measured_trial(arguments, parameter, version, node)
    return measured(version, arguments.run, arguments.timeout)


def _report(plan: Plan, count: int, line: Line, version: str) -> None:
    shown = ", ".join(f"{metric} {value:.6g}" for metric, value in line.run.values.items())
    text = f"run {count} of at most {plan.max_runs}: {line.run.arm} {version}: {shown or f'broken: {line.reason}'}"
    print(printable(text), file=sys.stderr, flush=True)


def _notes(lines: Sequence[Line], versions: Mapping[str, str], effect: float) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for line in lines:
        if not line.run.values:
            key = versions[line.run.arm], line.reason or "no reason was recorded"
            counts[key] = counts.get(key, 0) + 1
    broken = [
        f"{count} {'run' if count == 1 else 'runs'} of {version} measured nothing: {reason}"
        for (version, reason), count in counts.items()
    ]
    changed = _changed(lines, effect)
    return [
        *broken,
        *notes_of_hosts([line.run.host for line in lines]),
        *([note_of_change(*changed)] if changed else []),
    ]


def _reasons(lines: Sequence[Line]) -> str:
    reasons = list(dict.fromkeys(line.reason for line in lines if line.reason))
    return f": {', '.join(map(printable, reasons))}" if reasons else ""


def _line(where: str, line: Mapping[str, Any]) -> Line:
    arm, values = line.get("arm"), line.get("values")
    if arm not in {BASE, CANDIDATE} or not isinstance(values, dict):
        raise UnreadableInputError(f"{where}: is not a run of a comparison")
    seconds = line.get("loop_seconds")
    known = isinstance(seconds, float) and math.isfinite(seconds) and seconds > 0
    numbers = {str(metric): number for metric, value in values.items() if (number := finite(value)) is not None}
    host, reason = str(line.get("host") or ""), str(line.get("reason") or "")
    return Line(MeasuredRun(arm, numbers, host), seconds if known else None, reason)
