r"""Find the candidate from which on a metric has another level, by a binary search in spite of noise: a probe runs a
command once, and is repeated where the answer is ambiguous. Exit code 1: no change was found.

The candidates are commits, images or versions in the order of time, one a line; the first is good, the last is bad. The
command finds the candidate in the variable CANDIDATE, and the last line of its output is the value. Exit code 125 means
that the candidate cannot be tested, any other error that the run broke; a candidate whose runs break three times in a
row is left out. Each probe is written to the journal, with which a search that was killed goes on.

Without values of good and bad runs (--from, --to), the search first measures both ends: at least 12 runs.

examples:
  ml-metrics bisect --candidates tags.txt --run ./measure.sh --journal j.jsonl
  ml-metrics bisect --candidates tags.txt --run ./measure.sh --journal j.jsonl \
      --from good.json --to bad.json --metric step_time
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.bisection.probe import Probe, State
from ml_metrics.bisection.report import document
from ml_metrics.bisection.search import Found, Search, next_probe
from ml_metrics.cli.arguments import UsageError, add_json, text
from ml_metrics.cli.measuring import VALUE, add_command, add_effect, add_max_runs, measured
from ml_metrics.cli.output import print_json
from ml_metrics.compare.journal import journal_of
from ml_metrics.config.problems import did_you_mean
from ml_metrics.errors import UnreadableInputError
from ml_metrics.judge.input_files import read_repeats
from ml_metrics.values import finite, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

DEFAULT_RUNS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `bisect`."""
    parser.add_argument("--candidates", type=text, metavar="FILE", required=True, help="the candidates, one a line")
    add_command(parser, required=True)
    add_max_runs(parser, DEFAULT_RUNS)
    add_effect(parser)
    parser.add_argument("--from", dest="good", type=text, metavar="FILE", help="{metric: [values]} of good runs")
    parser.add_argument("--to", dest="bad", type=text, metavar="FILE", help="the same of bad runs")
    parser.add_argument("--metric", type=text, metavar="NAME", help="the metric of both files, and of the output")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search, and print the pair of candidates between which the level changed."""
    search = Search(
        _candidates(arguments.candidates),
        arguments.max_runs,
        _values(arguments.good, arguments.metric, "--from"),
        _values(arguments.bad, arguments.metric, "--to"),
        arguments.effect,
    )
    with journal_of(asdict(search), Path(arguments.journal)) as journal:
        probes = [_probe(f"{journal.path}:{number}", line) for number, line in enumerate(journal.lines, start=2)]
        while isinstance(step := next_probe(search, probes), int):
            probes.append(_probed(step, search.candidates[step], arguments))
            journal.add(asdict(probes[-1]))
            _report(search, len(probes), probes[-1])
    if arguments.json:
        print_json(document(search, probes, step))
    else:
        _print(search, probes, step)
    return 0 if step.is_found else 1


def _candidates(path: str) -> tuple[str, ...]:
    try:
        lines = storage.read_bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UnreadableInputError(f"{path}: is not UTF-8 text: {error.reason}") from error
    found = tuple(line.strip() for line in lines if line.strip())
    if hidden := next((line for line in found if "\0" in line), None):
        raise UnreadableInputError(f"{path}: {printable(hidden)} holds a NUL byte")
    return found


def _values(path: str | None, metric: str | None, option: str) -> tuple[float, ...]:
    if path is None:
        return ()
    repeats = read_repeats(path)
    if metric is None and len(repeats) == 1:
        return tuple(next(iter(repeats.values())))
    if metric not in repeats:
        wanted = "name one of its metrics with --metric" if metric is None else f"has no metric {metric!r}"
        raise UsageError(f"{option}: {path}: {wanted}{did_you_mean(metric or '', repeats)}")
    return tuple(value for value in repeats[metric] if finite(value) is not None)


def _probed(place: int, candidate: str, arguments: argparse.Namespace) -> Probe:
    found = measured(candidate, arguments.run, arguments.timeout)
    if not found.testable:
        return Probe(place, None, State.UNTESTABLE)
    name = VALUE if VALUE in found.values else arguments.metric
    value = found.values.get(name) if name else next(iter(found.values.values()), None)
    return Probe(place, value, State.BROKEN if value is None else State.MEASURED)


def _probe(where: str, line: Mapping[str, Any]) -> Probe:
    try:
        return Probe(int(line["candidate"]), line["value"], State(line["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableInputError(f"{where}: is not a probe: {error}") from error


def _report(search: Search, count: int, probe: Probe) -> None:
    value = probe.state.value if probe.value is None else f"{probe.value:.6g}"
    line = f"run {count} of at most {search.max_runs}: {search.candidates[probe.candidate]}: {value}"
    print(printable(line), file=sys.stderr, flush=True)


def _print(search: Search, probes: Sequence[Probe], found: Found) -> None:
    print(found.reason)
    if found.good is not None:
        for name, candidate in (("good", found.good), ("bad", found.bad)):
            place = search.candidates.index(candidate or "")
            values = [f"{probe.value:.6g}" for probe in probes if probe.candidate == place and probe.value is not None]
            print(f"{name}: {candidate} ({', '.join(values) or 'not measured'})")
        for candidate in found.between:
            print(f"between: {candidate} (could not be measured)")
    certainty = "" if found.certainty is None else f", {found.certainty:.1%} certain"
    print(f"{len(probes)} runs{certainty}")
