r"""Compare two versions, such as two images: is the candidate worse than the base, better, or equivalent? Exit code 1:
a metric is worse, or every run of a version broke.

The values are those of two files of {metric: [values]}, oldest first, with null for a run without the value. Or both
versions are measured in turns, until every metric is decided: by trials of TEST, or by a command. It finds the version
in the variable CANDIDATE, and prints {metric: value} or a number in its last line. docs/compare.md explains the
verdicts. A value that is a list [[x, y], ...] is a curve (docs/curves.md).

examples:
  ml-metrics compare --from base.json --to candidate.json
  ml-metrics compare tf-mnist-example-cpu --base app:1 --candidate app:2 \
      --journal j.jsonl --metric total_wall_time
  ml-metrics compare --base app:1 --candidate app:2 --run ./measure.sh \
      --journal j.jsonl --metric step_time --junit compare.xml
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ml_metrics.config.collection import Better, MetricFacts, known_about
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.text import did_you_mean, printable
from ml_metrics.core.units import quantity
from ml_metrics.core.values import finite
from ml_metrics.judge import compare
from ml_metrics.judge.compare import Compared, Step
from ml_metrics.pipeline.experiments import IMAGE, node_of
from ml_metrics.ui.cli import measuring
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value, pair
from ml_metrics.ui.cli.inputs import read_repeats
from ml_metrics.ui.cli.output import Steps, give, table, tell, warn, write_file

Ended = tuple[list["Compared"], "Step", list[str]]
"""The answers, the last step, and what limits the answers: runs that broke, hosts that changed."""


def compared_runs(arguments: Arguments, facts: Mapping[str, MetricFacts]) -> Ended | None:
    """Write each run to the journal; only state the plan, and return None, if that was asked for."""
    if arguments.base == arguments.candidate:
        raise UsageError(f"--base and --candidate are both {arguments.base}: there is nothing to compare")
    parameter = arguments.parameter or IMAGE
    plan = compare.Plan(arguments.effect, arguments.max_runs, tuple(arguments.metric or ()))
    versions = {compare.BASE: arguments.base, compare.CANDIDATE: arguments.candidate}
    if arguments.test:
        measuring.check_trial(arguments.test, parameter, [*versions.values()])
    question = {**asdict(plan), **versions, "test": arguments.test}
    question |= {"parameter": parameter} if parameter != IMAGE else {}
    path = measuring.journal_path("compare", arguments.journal, {**question, "run": arguments.run})
    if arguments.dry_run or not path.exists():
        past = measuring.past_values(arguments, arguments.metric) if arguments.test else {}
        planned = compare.expectation(plan, past)
        if arguments.dry_run:
            give(arguments, {"planned": planned}, [printable(f"planned: {planned}")])
            return None
        tell(f"planned: {planned}")
    with measuring.journal_of(question, path) as journal:
        measuring.show_journal(journal, arguments.journal)
        lines, told = journal.lines, Steps()
        runs = [_run_of(f"{path}:{number}", line) for number, line in enumerate(lines, start=2)]
        while (step := compare.next_step(plan, _apart(runs, lines, plan.effect)[0])).runs:
            arm = step.runs[0]
            block = runs[len(runs) // compare.BLOCK * compare.BLOCK :] if arguments.same_node else []
            node = node_of(run.host for run in block)
            journal.add(_made(arguments, arm, parameter, versions[arm], node))
            runs.append(_run_of(str(path), lines[-1]))
            shown = ", ".join(
                f"{metric} {quantity(value, known_about(metric, facts).unit)}"
                if isinstance(value, int | float)
                else f"{metric} of {len(value.points)} points"
                for metric, value in runs[-1].values.items()
            )
            text = f"run {len(runs)} of at most {plan.max_runs}: {arm} {versions[arm]}: "
            told(text + (shown or f"broken: {lines[-1]['reason']}"))
    (warn if step.broken else tell)(f"{len(runs)} runs: {step.reason}")
    measured, changes = _apart(runs, lines, plan.effect)
    if not (found := compare.answers(plan, measured, facts)):
        reasons = dict.fromkeys(printable(_text(line, "reason")) for line in lines if line.get("reason"))
        raise UsageError(": ".join(filter(None, (f"nothing was measured: {step.reason}", ", ".join(reasons)))))
    broken = (
        (versions[run.arm], _text(line, "reason") or "no reason was recorded")
        for run, line in zip(runs, lines, strict=True)
        if not run.values
    )
    hosts = compare.notes_of_hosts([run.host for run in runs])
    return found, step, [*compare.notes_of_failures(broken), *hosts, *changes]


def _apart(
    runs: list[compare.MeasuredRun], lines: Sequence[Mapping[str, Any]], effect: float
) -> tuple[list[compare.MeasuredRun], list[str]]:
    """The runs, those before and after a change of the host apart, and a note about it.

    It is unknown where the time of the loop is not known of every run.
    """
    known = [one for line in lines if isinstance(one := line.get("loop_seconds"), float) and 0 < one < math.inf]
    changed = compare.changed_at(runs, known, effect) if len(known) == len(runs) else None
    return (compare.apart(runs, changed[0]), [compare.note_of_change(*changed)]) if changed else (runs, [])


def _made(arguments: Arguments, arm: str, parameter: str, version: str, node: str) -> dict[str, Any]:
    """The journal's line of a new run, with what the calibration loop took before it."""
    if arguments.test:
        seconds, found = None, measuring.measured_trial(arguments, parameter, version, node)
    else:
        seconds, found = measuring.loop_seconds(), measuring.measured(version, arguments.run, arguments.timeout)
    run = asdict(compare.MeasuredRun(arm, {**found.values, **found.curves}, found.host))
    return {**run, "loop_seconds": seconds, "reason": found.reason}


def _run_of(where: str, line: Mapping[str, Any]) -> compare.MeasuredRun:
    arm, values = line.get("arm"), line.get("values")
    if arm not in {compare.BASE, compare.CANDIDATE} or not isinstance(values, dict):
        raise UnreadableInputError(f"{where}: is not a run of a comparison")
    read = {str(metric): compare.curve_of(metric, value) or finite(value) for metric, value in values.items()}
    known = {metric: value for metric, value in read.items() if value is not None}
    return compare.MeasuredRun(arm, known, _text(line, "host"))


def _text(line: Mapping[str, Any], name: str) -> str:
    return str(line.get(name) or "")


HEAD = ("metric", "verdict", "base", "candidate", "change", "interval", "runs")


def add_arguments(parser: Parser) -> None:
    files = parser.add_argument_group("values that exist")
    add_value(files, "--from", "FILE", "the values of the base", dest="base_file")
    add_value(files, "--to", "FILE", "the values of the candidate", dest="candidate_file")
    add_flag(files, "--in-turns", "values at the same place were measured in turn")
    add_flag(files, "--together", "5 %% is the error of all metrics together")
    runs = parser.add_argument_group("runs in turns")
    add_value(runs, "test", "TEST", "the test that runs with both images", nargs="?")
    add_value(runs, "--base", "VERSION", "the base")
    add_value(runs, "--candidate", "VERSION", "the candidate")
    add_value(runs, "--parameter", "NAME", "what differs; default: image")
    measuring.add_trials(runs, 60)
    add_value(parser, "--metric", "NAME", "only this metric; repeatable", action="append")
    add_value(parser, "--config", "CONFIG", "a test file with directions")
    about = "higher, lower or neither"
    add_value(parser, "--better", "NAME=DIRECTION", about, direction, action="append", default=[])
    add_flag(parser, "--strict", "exit code 1 also if a metric is undecided")
    measuring.add_answer(parser, "the verdicts")


def run(arguments: Arguments) -> int:
    facts = _facts(arguments)
    is_of_runs = _is_of_runs(arguments)
    ended = compared_runs(arguments, facts) if is_of_runs else (_of_files(arguments, facts), compare.Step(), [])
    if ended is None:
        return 0
    found, step, limits = ended
    if arguments.junit:
        write_file(arguments.junit, compare.junit(found, strict=arguments.strict))
    if arguments.markdown:
        lines = [compare.markdown(found, arguments.effect, together=arguments.together)]
        lines += ["".join(f"\n- {compare.escaped(note)}" for note in limits)] if limits else []
    else:
        lines = [*_lines(found, together=arguments.together), *map(printable, limits)]
    notes = {"notes": limits} if is_of_runs else {}
    give(arguments, {**compare.document(found, arguments.effect), **notes}, lines)
    bad = {compare.Answer.WORSE, compare.Answer.UNDECIDED} if arguments.strict else {compare.Answer.WORSE}
    return int(step.broken or any(each.answer in bad for each in found))


def _is_of_runs(arguments: Arguments) -> bool:
    """Raises UsageError unless either all files or all about the runs is stated."""
    files = {"--from": arguments.base_file, "--to": arguments.candidate_file}
    runs = {
        "--base": arguments.base,
        "--candidate": arguments.candidate,
        "TEST or --run": arguments.test or arguments.run,
    }
    every = "--from and --to, or --base, --candidate and TEST or --run"
    if arguments.test and arguments.run:
        raise UsageError("give TEST or --run, not both")
    chosen = runs if any(runs.values()) else files
    if chosen is runs and any(files.values()):
        raise UsageError(f"give {every}, not both")
    if missing := [name for name, value in chosen.items() if not value]:
        raise UsageError(f"{' and '.join(missing)} missing: give {every}")
    return chosen is runs


def _of_files(arguments: Arguments, facts: Mapping[str, MetricFacts]) -> list[Compared]:
    files = [read_repeats(path) for path in (arguments.base_file, arguments.candidate_file)]
    known = {**files[0], **files[1]}
    for metric in arguments.metric or ():
        if metric not in known:
            raise UsageError(f"neither file has a metric {metric!r}{did_you_mean(metric, known)}")
    if not known:
        raise UsageError("the files have no metric")
    wanted = arguments.metric or known
    base, candidate = ({metric: file[metric] for metric in wanted if metric in file} for file in files)
    for metric in {**base, **candidate}:
        if metric not in base or metric not in candidate:
            warn(f"{metric} is missing in the {'base' if metric not in base else 'candidate'}")
    in_turns, together = arguments.in_turns, arguments.together
    return compare.compare_repeats(base, candidate, arguments.effect, facts, in_turns=in_turns, together=together)


def direction(argument: str) -> tuple[str, str]:
    name, better = pair(argument)
    if better not in list(Better):
        raise argparse.ArgumentTypeError(f"{argument!r} should end with =higher, =lower or =neither")
    return name, better


def _facts(arguments: Arguments) -> dict[str, MetricFacts]:
    facts: dict[str, MetricFacts] = {}
    if arguments.config:
        from ml_metrics.config.loading import load_file

        facts = dict(load_file(arguments.config).metric_collection_config.facts)
    for name, better in arguments.better:
        stated = facts.get(name, MetricFacts())
        facts[name] = stated.model_copy(update={"better": Better(better)})
    return facts


def _lines(found: list[Compared], *, together: bool) -> Iterator[str]:
    yield table(HEAD, [compare.cells(each) for each in found], right=(2, 3, 4, 5, 6))
    yield from (f"{each.metric}: {each.reason}" for each in found if each.answer is not compare.Answer.EQUIVALENT)
    yield compare.summary(found)
    if note := compare.multiplicity(found, together=together):
        yield note
