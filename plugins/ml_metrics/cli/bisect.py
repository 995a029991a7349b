r"""Find the version from which on a metric has another level, by a binary search under noise: a run is repeated if the
answer is ambiguous. Exit code 0: the pair was found. 1: there is only noise, or the budget is spent.

The candidates are the versions between a good and a bad run of TEST: the images that ran between them (the default),
the tags of the test's image, the packages in which both runs differ, or the commits of a git repository. Without --good
and --bad, they are the newest run that METRIC broke, and the newest that passed before it. Each run is a trial of the
test, which counts in no history.

Or the candidates are the lines of a file in the order of time, the first good and the last bad, and a command measures
one: it finds the candidate in the variable CANDIDATE, and the last line of its output is the value. Exit code 125 means
that the candidate cannot be tested, any other error that the run broke; a candidate whose runs break three times in a
row is left out.

Each run is written to the journal, from which the same command continues after a kill. Without values of good and
bad runs, the search first measures both ends: at least 12 runs.

examples:
  ml-metrics bisect tf-mnist-example-cpu loss_final
  ml-metrics bisect resnet step_time --good RUN --bad RUN \
      --candidates packages
  ml-metrics bisect resnet step_time --candidates commits \
      --repository ~/resnet --good v1.4 --bad HEAD \
      --build 'make image TAG=$CANDIDATE >&2 && echo app:$CANDIDATE'
  ml-metrics bisect --candidates tags.txt --run ./measure.sh --journal j.jsonl \
      --from good.json --to bad.json --metric step_time
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from ml_metrics.bisection.expected import expectation
from ml_metrics.bisection.report import document, junit, markdown
from ml_metrics.bisection.search import Found, Search, next_probe
from ml_metrics.cli import search_question
from ml_metrics.cli.arguments import UsageError, add_json, text
from ml_metrics.cli.chosen_warehouse import add_warehouse
from ml_metrics.cli.measuring import (
    add_command,
    add_dry_run,
    add_effect,
    add_max_runs,
    add_same_node,
    journal_path,
    show_journal,
)
from ml_metrics.cli.output import counted, print_json, write_file
from ml_metrics.cli.probing import Line, line_of, probed
from ml_metrics.cli.search_question import COMMITS, IMAGES
from ml_metrics.compare.journal import journal_of
from ml_metrics.values import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DEFAULT_RUNS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `bisect`."""
    runs = parser.add_argument_group("runs of a test")
    runs.add_argument("test", type=text, metavar="TEST", nargs="?", help="the test whose metric changed")
    runs.add_argument("metric", type=text, metavar="METRIC", nargs="?", help="the metric that changed")
    runs.add_argument("--good", type=text, metavar="RUN", help="the key of a good run; or a good commit, tag or line")
    runs.add_argument("--bad", type=text, metavar="RUN", help="the key of a bad run; or a bad commit, tag or line")
    runs.add_argument("--parameter", type=text, metavar="NAME", help="what differs: image, or a parameter of the test")
    runs.add_argument(
        "--repository", type=text, metavar="FOLDER", default=".", help="where the commits are; default: ."
    )
    runs.add_argument(
        "--build",
        type=text,
        metavar="COMMAND",
        help="builds $CANDIDATE in a working tree of that commit, and names the image in its last line; "
        "a commit for which it fails cannot be tested",
    )
    files = parser.add_argument_group("values that exist")
    files.add_argument("--from", dest="good_values", type=text, metavar="FILE", help="{metric: [values]} of good runs")
    files.add_argument("--to", dest="bad_values", type=text, metavar="FILE", help="the same of bad runs")
    files.add_argument(
        "--metric", dest="file_metric", type=text, metavar="NAME", help="the metric of both files, and of the output"
    )
    parser.add_argument(
        "--candidates",
        type=text,
        metavar="WHAT",
        help="images, tags, commits, packages, or a FILE with one a line; default with TEST: images",
    )
    add_command(parser)
    add_max_runs(parser, DEFAULT_RUNS)
    add_effect(parser)
    add_dry_run(parser)
    add_same_node(runs)
    parser.add_argument("--junit", type=text, metavar="FILE", help="also write the answer as JUnit XML")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print a table for a comment")
    add_json(form)
    add_warehouse(parser, json=False)


def run(arguments: argparse.Namespace) -> int:
    """Search, and print the pair of candidates between which the level changed."""
    _check(arguments)
    listed = None if arguments.test else search_question.search_of_files(arguments)
    if arguments.dry_run:
        _show_plan(listed or search_question.search_of_test(arguments))
        return 0
    question = asdict(listed) if listed else search_question.asked(arguments)
    derived = None if listed else partial(search_question.begun, arguments)
    path = journal_path("bisect", arguments.journal, {**question, "run": arguments.run})
    with journal_of(question, path, derived) as journal:
        show_journal(journal, arguments.journal)
        search = listed or Search.from_document(journal.question.get("search") or {})
        lines = [line_of(f"{path}:{number}", line) for number, line in enumerate(journal.lines, start=2)]
        if not lines:
            _show_plan(search)
        while isinstance(step := next_probe(search, [line.probe for line in lines]), int):
            lines.append(probed(step, search.candidates[step], arguments, lines))
            journal.add(lines[-1].document())
            _report(search, len(lines), lines[-1])
    _give(arguments, search, lines, step)
    return 0 if step.is_found else 1


def _check(arguments: argparse.Namespace) -> None:
    """Raise UsageError unless the question is complete."""
    if arguments.test and not arguments.metric:
        raise UsageError(f"{arguments.test}: name the METRIC that changed as well")
    if not arguments.test and not arguments.run:
        raise UsageError("give TEST and METRIC, or --candidates FILE and --run")
    if arguments.build and arguments.candidates != COMMITS:
        raise UsageError("--build builds commits: it needs --candidates commits")
    if arguments.test and (arguments.good_values or arguments.bad_values):
        raise UsageError("--from and --to are for --candidates FILE and --run: the history of TEST has its values")
    if arguments.test and not arguments.candidates:
        arguments.candidates = IMAGES


def _show_plan(search: Search) -> None:
    first, last = search.candidates[0], search.candidates[-1]
    print(printable(f"candidates: {len(search.candidates):,}, from {first} to {last}"), file=sys.stderr)
    print(f"planned: {expectation(search)}", file=sys.stderr)


def _report(search: Search, count: int, line: Line) -> None:
    probe = line.probe
    why = f", {line.reason}" if line.reason else ""
    value = f"{probe.state.value}{why}" if probe.value is None else f"{probe.value:.6g}"
    text = f"run {count} of at most {search.max_runs}: {search.candidates[probe.candidate]}: {value}"
    print(printable(text), file=sys.stderr, flush=True)


def _give(arguments: argparse.Namespace, search: Search, lines: Sequence[Line], found: Found) -> None:
    probes = [line.probe for line in lines]
    if arguments.junit:
        write_file(arguments.junit, junit(arguments.metric or arguments.file_metric or "metric", found))
    if arguments.json:
        print_json(document(search, probes, found))
    elif arguments.markdown:
        print(markdown(search, probes, found))
    else:
        _print(search, lines, found)


def _print(search: Search, lines: Sequence[Line], found: Found) -> None:
    print(printable(found.reason))
    reasons = {line.probe.candidate: line.reason for line in lines if line.reason}
    if found.good is not None:
        for name, candidate in (("good", found.good), ("bad", found.bad)):
            place = search.candidates.index(candidate or "")
            own = [line.probe.value for line in lines if line.probe.candidate == place]
            values = [f"{value:.6g}" for value in own if value is not None]
            print(printable(f"{name}: {candidate} ({', '.join(values) or 'not measured'})"))
        for candidate in found.between:
            why = reasons.get(search.candidates.index(candidate), "")
            print(printable(f"between: {candidate} (could not be measured{f': {why}' if why else ''})"))
    certainty = "" if found.certainty is None else f", {found.certainty:.1%} certain"
    print(f"{counted(len(lines), 'run')}{certainty}")
