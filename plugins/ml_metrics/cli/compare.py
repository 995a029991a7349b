r"""Compare two versions, such as two images: is the candidate worse than the base, better, or equivalent? Exit code 1:
a metric is worse, or every run of a version broke.

The values are those of two files of {metric: [values]}, oldest first, with null for a run without the value. Or both
versions are measured in turns, until every metric is decided: by trials of TEST with both images, or by a command that
finds the version in the variable CANDIDATE and prints {metric: value} or a number in its last line. Runs that are in
the journal are not made again.

The interval of the change decides, at a confidence of 95 %: worse or better if it excludes 0; equivalent if it is
within the effect on both sides of 0; otherwise undecided. Values are compared by their ranks, so that outliers and the
form of the noise do not matter. Which direction is better follows from the name of the metric, from CONFIG, or from
--better (docs/compare.md).

examples:
  ml-metrics compare --from base.json --to candidate.json
  ml-metrics compare tf-mnist-example-cpu --base app:1 --candidate app:2 \
      --journal j.jsonl --metric total_wall_time
  ml-metrics compare --from a.json --to b.json --effect 1% --metric step_time
  ml-metrics compare --base app:1 --candidate app:2 --run ./measure.sh \
      --journal j.jsonl --metric step_time --junit compare.xml
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError, add_json, pair, text
from ml_metrics.cli.chosen_warehouse import add_warehouse
from ml_metrics.cli.compare_runs import Ended, compared_runs
from ml_metrics.cli.measuring import add_command, add_dry_run, add_effect, add_max_runs, add_same_node
from ml_metrics.cli.output import print_json, table, warn, write_file
from ml_metrics.compare.answer import Answer
from ml_metrics.compare.plan import Step
from ml_metrics.compare.repeats import compare_repeats
from ml_metrics.compare.report import cells, document, escaped, junit, markdown, multiplicity, summary
from ml_metrics.config.metric_facts import Better, MetricFacts
from ml_metrics.config.problems import did_you_mean
from ml_metrics.judge.input_files import read_repeats
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.compare.answer import Compared

DEFAULT_RUNS = 60
HEAD = ("metric", "verdict", "base", "candidate", "change", "interval", "runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `compare`."""
    files = parser.add_argument_group("values that exist")
    files.add_argument("--from", dest="base_file", type=text, metavar="FILE", help="the values of the base")
    files.add_argument("--to", dest="candidate_file", type=text, metavar="FILE", help="the values of the candidate")
    files.add_argument(
        "--in-turns", action="store_true", help="values at the same place were measured one after the other"
    )
    files.add_argument(
        "--together", action="store_true", help="5 %% is the error of all metrics together, instead of each"
    )
    runs = parser.add_argument_group("runs in turns")
    runs.add_argument("test", type=text, metavar="TEST", nargs="?", help="the test that runs with both images")
    runs.add_argument("--base", type=text, metavar="VERSION", help="the base")
    runs.add_argument("--candidate", type=text, metavar="VERSION", help="the candidate")
    runs.add_argument(
        "--parameter", type=text, metavar="NAME", help="what differs: image (the default), or a parameter of the test"
    )
    add_command(runs)
    add_max_runs(runs, DEFAULT_RUNS)
    add_dry_run(runs)
    add_same_node(runs)
    add_effect(parser)
    parser.add_argument(
        "--metric", type=text, action="append", metavar="NAME", help="only this metric; can be repeated"
    )
    parser.add_argument(
        "--config", type=text, metavar="CONFIG", help="a test file that states which direction is better"
    )
    parser.add_argument(
        "--better",
        type=direction,
        action="append",
        default=[],
        metavar="NAME=DIRECTION",
        help="higher, lower or neither, for a metric",
    )
    parser.add_argument("--strict", action="store_true", help="exit code 1 also if a metric is undecided")
    parser.add_argument("--junit", type=text, metavar="FILE", help="also write the verdicts as JUnit XML")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print a table for a comment")
    add_json(form)
    add_warehouse(parser, json=False)


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print the verdicts."""
    facts = _facts(arguments)
    is_of_runs = _is_of_runs(arguments)
    ended = compared_runs(arguments, facts) if is_of_runs else Ended(_of_files(arguments, facts), Step(), ())
    if ended is None:
        return 0
    found, step = ended.found, ended.step
    if arguments.junit:
        write_file(arguments.junit, junit(found, strict=arguments.strict))
    if arguments.json:
        print_json({**document(found, arguments.effect), **({"notes": list(ended.notes)} if is_of_runs else {})})
    elif arguments.markdown:
        print(markdown(found, arguments.effect, together=arguments.together))
        print("".join(f"\n- {escaped(note)}" for note in ended.notes), end="\n" if ended.notes else "")
    else:
        _print_table(found, arguments)
        for note in ended.notes:
            print(printable(note))
    bad = {Answer.WORSE, Answer.UNDECIDED} if arguments.strict else {Answer.WORSE}
    return int(step.broken or any(each.answer in bad for each in found))


def _is_of_runs(arguments: argparse.Namespace) -> bool:
    """Whether runs are to be made. Raises UsageError unless either all files or all about the runs is stated."""
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


def _of_files(arguments: argparse.Namespace, facts: Mapping[str, MetricFacts]) -> list[Compared]:
    paths = arguments.base_file, arguments.candidate_file
    base, candidate = (_chosen(read_repeats(path), arguments.metric) for path in paths)
    _check(arguments, base, candidate)
    in_turns, together = arguments.in_turns, arguments.together
    return compare_repeats(base, candidate, arguments.effect, facts, in_turns=in_turns, together=together)


def direction(argument: str) -> tuple[str, str]:
    """A type for NAME=higher, NAME=lower and NAME=neither."""
    name, better = pair(argument)
    if better not in list(Better):
        raise argparse.ArgumentTypeError(f"{argument!r} should end with =higher, =lower or =neither")
    return name, better


def _chosen(values: dict[str, list[float]], metrics: list[str] | None) -> dict[str, list[float]]:
    return {metric: values[metric] for metric in metrics if metric in values} if metrics else values


def _check(arguments: argparse.Namespace, base: Mapping[str, object], candidate: Mapping[str, object]) -> None:
    known = {**base, **candidate}
    for metric in arguments.metric or ():
        if metric not in known:
            measured = {**read_repeats(arguments.base_file), **read_repeats(arguments.candidate_file)}
            raise UsageError(f"neither file has a metric {metric!r}{did_you_mean(metric, measured)}")
    if not known:
        raise UsageError("the files have no metric")
    for metric in known:
        if metric not in base or metric not in candidate:
            warn(f"{metric} is missing in the {'base' if metric not in base else 'candidate'}")


def _facts(arguments: argparse.Namespace) -> dict[str, MetricFacts]:
    facts: dict[str, MetricFacts] = {}
    if arguments.config:
        from ml_metrics.config.load import load_file

        facts = dict(load_file(arguments.config).metric_collection_config.facts)
    for name, better in arguments.better:
        stated = facts.get(name, MetricFacts())
        facts[name] = stated.model_copy(update={"better": Better(better)})
    return facts


def _print_table(found: list[Compared], arguments: argparse.Namespace) -> None:
    print(table(HEAD, [cells(each) for each in found], right=(2, 3, 4, 5, 6)))
    for each in found:
        if each.answer is not Answer.EQUIVALENT:
            print(f"{each.metric}: {each.reason}")
    print(summary(found))
    if note := multiplicity(found, together=arguments.together):
        print(note)
