r"""Find the version from which on a metric has another level, by a binary search under noise. Exit code 1: there is
only noise, or the budget is spent.

The candidates are versions between a good and a bad run of TEST: without --good and --bad, the newest run that METRIC
broke, and the newest that passed before it. Each run is a trial.

Or the candidates are the lines of a file, from good to bad, and a command measures one. It finds it in the variable
CANDIDATE, and prints the value in its last line. Exit code 125: the candidate cannot be tested. Any other error: the
run broke, and after three in a row the candidate is left out.

Without --from and --to, the search first measures both ends: at least 12 runs.

examples:
  ml-metrics bisect tf-mnist-example-cpu loss_final
  ml-metrics bisect resnet step_time --candidates commits \
      --repository ~/resnet --good v1.4 --bad HEAD \
      --build 'make image TAG=$CANDIDATE >&2 && echo app:$CANDIDATE'
  ml-metrics bisect --candidates tags.txt --run ./measure.sh --journal j.jsonl \
      --from good.json --to bad.json --metric step_time
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import Sweep
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, did_you_mean, printable
from ml_metrics.core.units import quantities, quantity
from ml_metrics.core.values import finite
from ml_metrics.judge import Probe, State
from ml_metrics.judge.bisect import Found, Search, document, expectation, junit, markdown, next_probe
from ml_metrics.judge.compare import curve_of
from ml_metrics.pipeline import experiments
from ml_metrics.ui.cli import measuring
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value
from ml_metrics.ui.cli.chosen_warehouse import open_chosen
from ml_metrics.ui.cli.inputs import read_repeats, read_text
from ml_metrics.ui.cli.output import Steps, give, tell, write_file

SECONDS = 300.0
"""How long git may take to list commits, or to check one out."""


def commits_between(repository: str, good: str, bad: str) -> tuple[str, ...]:
    """Both ends included, along the first parents, oldest first."""
    ends = {"good": good, "bad": bad}
    found = {name: _resolved(repository, revision) for name, revision in ends.items()}
    for name, commit in found.items():
        if commit is None:
            raise UsageError(f"{name}: {ends[name]!r} is not a commit of the repository {repository}")
    first, last = str(found["good"]), str(found["bad"])
    if first == last:
        raise UsageError(f"good and bad are the same commit, {first}: something else changed")
    if _git(repository, "merge-base", "--is-ancestor", first, last) is None:
        turned = _git(repository, "merge-base", "--is-ancestor", last, first) is not None
        hint = ": good and bad seem to be swapped" if turned else ", so that nothing is between them"
        raise UsageError(f"the commit {first} is no ancestor of {last}{hint}")
    listed = _git(repository, "rev-list", "--reverse", "--first-parent", f"{first}..{last}")
    between = (listed or "").split()
    if len(between) >= experiments.MOST_CANDIDATES:
        most = experiments.MOST_CANDIDATES
        raise UsageError(f"{len(between):,} commits are between both, at most {most:,} are searched")
    return (first, *between)


@contextmanager
def checked_out(repository: str, commit: str) -> Iterator[str]:
    """In a working tree of its own, which is removed afterwards."""
    _git(repository, "worktree", "prune")  # what a killed search has left
    with tempfile.TemporaryDirectory(prefix="ml-metrics-") as above:
        tree = str(Path(above, "tree"))
        if _git(repository, "worktree", "add", "--quiet", "--detach", "--force", tree, commit) is None:
            raise UsageError(f"{repository}: the commit {commit} cannot be checked out")
        try:
            yield tree
        finally:
            shutil.rmtree(tree, ignore_errors=True)
            _git(repository, "worktree", "prune")


def _resolved(repository: str, revision: str) -> str | None:
    name = f"{revision}^{{commit}}"
    found = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return found.strip() if found else None


def _git(repository: str, *argv: str) -> str | None:
    """What git prints; None if it fails. Raises UsageError if there is no repository."""
    try:
        ended = subprocess.run(
            ["git", "-C", repository, *argv],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},  # what it says is read below
        )
    except FileNotFoundError:
        raise UsageError("the command `git` was not found") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {argv[0]} took more than {SECONDS:g} s in {repository}") from None
    if "not a git repository" in ended.stderr or "cannot change to" in ended.stderr:
        raise UsageError(f"--repository: {printable(repository)} is not a git repository")
    return ended.stdout if ended.returncode == 0 else None


IMAGES, TAGS, COMMITS, PACKAGES = "images", "tags", "commits", "packages"
PARAMETERS = {COMMITS: "commit", PACKAGES: "packages"}
"""The parameter of the test that takes such a candidate, if `--parameter` names none."""
SOURCES = {IMAGES: experiments.Source.HISTORY, TAGS: experiments.Source.TAGS, PACKAGES: experiments.Source.PACKAGES}
ASKED = ("test", "metric", "candidates", "good", "bad", "max_runs", "effect", "run", "build", "repository")
"""The question about a test, which stays the same while the history grows."""


def parameter_of(arguments: Arguments) -> str:
    if arguments.parameter:
        return str(arguments.parameter)
    return experiments.IMAGE if arguments.build else PARAMETERS.get(arguments.candidates, experiments.IMAGE)


def search_of_files(arguments: Arguments) -> Search:
    if arguments.candidates in {None, *SOURCES, COMMITS}:
        raise UsageError("give TEST and METRIC, whose runs state the candidates, or --candidates FILE and --run")
    if arguments.good or arguments.bad:
        raise UsageError(
            "--good and --bad are runs of a TEST; a list begins with its good end and ends with its bad one"
        )
    return Search(
        listed(arguments.candidates),
        arguments.max_runs,
        _values(arguments.good_values, arguments.file_metric, "--from"),
        _values(arguments.bad_values, arguments.file_metric, "--to"),
        arguments.effect,
    )


def search_of_test(arguments: Arguments) -> Search:
    """The candidates are listed once: the history grows."""
    parameter, source = parameter_of(arguments), arguments.candidates
    span = experiments.Span(arguments.test, parameter, arguments.metric, arguments.good or "", arguments.bad or "")
    if source == COMMITS:
        found = _commits(arguments, span)
    else:
        definition = measuring.definition_of(arguments.test)
        image = definition.image if definition else ""
        if source == TAGS and not image:
            raise UsageError(f"{arguments.test} has no test file here that states its image: list the candidates")
        places = experiments.Places(Settings.load(), lambda: open_chosen(arguments))
        kind = SOURCES.get(source, experiments.Source.LIST)
        lines = "\n".join(listed(source)) if kind == experiments.Source.LIST else None
        found = experiments.candidates_of(kind, lines, image or "", span, places)
    if not arguments.run:
        measuring.check_trial(arguments.test, parameter, () if arguments.build else found.versions)
    return Search(found.versions, arguments.max_runs, found.good, found.bad, arguments.effect)


def _commits(arguments: Arguments, span: experiments.Span) -> experiments.Candidates:
    """Those between two that are named, or that two runs recorded."""
    if all(end and _resolved(arguments.repository, end) for end in (span.good, span.bad)):
        return experiments.Candidates(commits_between(arguments.repository, span.good, span.bad))
    recorded = experiments.Span(span.test, arguments.parameter or PARAMETERS[COMMITS], span.metric, span.good, span.bad)
    with open_chosen(arguments) as warehouse:
        found = experiments.versions_between(warehouse, recorded)
    return replace(found, versions=commits_between(arguments.repository, found.versions[0], found.versions[-1]))


def listed(path: str) -> tuple[str, ...]:
    found = tuple(line.strip() for line in read_text(path).splitlines() if line.strip())
    if hidden := next((line for line in found if "\0" in line), None):
        raise UnreadableInputError(f"{path}: {printable(hidden)} holds a NUL byte")
    return found


def _values(path: str | None, metric: str | None, option: str) -> tuple[float | Sweep, ...]:
    if path is None:
        return ()
    repeats = read_repeats(path)
    if metric is None and len(repeats) == 1:
        return tuple(next(iter(repeats.values())))
    if metric not in repeats:
        wanted = "name one of its metrics with --metric" if metric is None else f"has no metric {metric!r}"
        raise UsageError(f"{option}: {path}: {wanted}{did_you_mean(metric or '', repeats)}")
    return tuple(each for each in repeats[metric] if isinstance(each, Sweep) or finite(each) is not None)


def made(place: int, candidate: str, arguments: Arguments, before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The journal's line of a new run. An image that an earlier run built is not built again."""
    image = next((line["built"] for line in before if line["candidate"] == place and line.get("built")), "")
    needs_tree = arguments.candidates == COMMITS and (arguments.run or (arguments.build and not image))
    with checked_out(arguments.repository, candidate) if needs_tree else nullcontext() as tree:
        if arguments.build and not image:
            output = measuring.output_of(candidate, arguments.build, arguments.timeout, tree)
            if not isinstance(output, str):
                return _line(place, State.UNTESTABLE, reason=f"it does not build: {output.reason}")
            image = "" if arguments.run else measuring.last_line(output)
            if not image and not arguments.run:
                raise UsageError("--build: the last line of its output should be the image that it has built")
        hosts = [str(line.get("host") or "") for line in before]
        node = experiments.node_of(hosts) if arguments.same_node else ""
        found = (
            measuring.measured(candidate, arguments.run, arguments.timeout, tree)
            if arguments.run
            else measuring.measured_trial(arguments, parameter_of(arguments), image or candidate, node)
        )
    wanted = arguments.metric or arguments.file_metric
    values: dict[str, float | Sweep] = {**found.values, **found.curves}
    only = next(iter(values.values()), None) if not wanted else None
    value = values.get(wanted if wanted in values else measuring.VALUE, only)
    missing = f"it did not measure {wanted}" if values and value is None else found.reason
    state = State.BROKEN if values and value is None else found.state
    return _line(place, state, value, built=image, reason=missing, host=found.host)


def _line(place: int, state: State, value: float | Sweep | None = None, **more: str) -> dict[str, Any]:
    return {**asdict(Probe(place, value, state)), "built": "", "reason": "", "host": "", **more}


def probe_of(where: str, line: Mapping[str, Any]) -> Probe:
    try:
        return Probe(int(line["candidate"]), curve_of("", line["value"]) or line["value"], State(line["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableInputError(f"{where}: is not a probe: {error}") from error


def add_arguments(parser: Parser) -> None:
    runs = parser.add_argument_group("runs of a test")
    add_value(runs, "test", "TEST", "the test", nargs="?")
    add_value(runs, "metric", "METRIC", "the metric that changed", nargs="?")
    add_value(runs, "--good", "RUN", "a good run, by its key, commit, tag or line")
    add_value(runs, "--bad", "RUN", "a bad run, likewise")
    add_value(runs, "--parameter", "NAME", "what differs: image, or a parameter")
    add_value(runs, "--repository", "FOLDER", "where the commits are; default: .", default=".")
    about = (
        "builds $CANDIDATE in a working tree of that commit, and names the image in its last line; "
        "where it fails, the commit cannot be tested"
    )
    add_value(runs, "--build", "COMMAND", about)
    files = parser.add_argument_group("values that exist")
    add_value(files, "--from", "FILE", "{metric: [values]} of good runs", dest="good_values")
    add_value(files, "--to", "FILE", "the same of bad runs", dest="bad_values")
    add_value(files, "--metric", "NAME", "the metric of both files, and of the output", dest="file_metric")
    about = (
        "images between both runs (the default with TEST), tags of its image, packages that differ, commits, or a FILE "
        "with one a line"
    )
    add_value(parser, "--candidates", "WHAT", about)
    measuring.add_trials(parser, 64)
    measuring.add_answer(parser, "the answer")


def run(arguments: Arguments) -> int:
    _check(arguments)
    listed = None if arguments.test else search_of_files(arguments)
    if arguments.dry_run:
        plan = _plan(listed or search_of_test(arguments))
        give(arguments, dict(line.split(": ", 1) for line in plan), map(printable, plan))
        return 0
    metric = arguments.metric or arguments.file_metric or ""
    unit = kind_of(metric).unit
    asked = {**{name: getattr(arguments, name) for name in ASKED}, "parameter": parameter_of(arguments)}
    question = asdict(listed) if listed else asked
    # what the journal of a test's search has besides the question
    derived = None if listed else lambda: {"search": asdict(search_of_test(arguments))}
    path = measuring.journal_path("bisect", arguments.journal, {**question, "run": arguments.run})
    with measuring.journal_of(question, path, derived) as journal:
        measuring.show_journal(journal, arguments.journal)
        search = listed or Search.from_document(journal.question.get("search") or {})
        lines, told = journal.lines, Steps()
        probes = [probe_of(f"{path}:{number}", line) for number, line in enumerate(lines, start=2)]
        if not lines:
            for line in _plan(search):
                tell(line)
        while isinstance(step := next_probe(search, probes), int):
            journal.add(made(step, search.candidates[step], arguments, lines))
            probes.append(probe_of(str(path), lines[-1]))
            told(_told(search, probes, lines[-1]["reason"], unit))
    if arguments.junit:
        write_file(arguments.junit, junit(metric or "metric", step))
    in_markdown = [markdown(search, probes, step, unit)] if arguments.markdown else None
    shown = in_markdown or _lines(search, probes, lines, step, unit)
    give(arguments, document(search, probes, step), shown)
    return 0 if step.is_found else 1


def _check(arguments: Arguments) -> None:
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


def _plan(search: Search) -> list[str]:
    first, last = search.candidates[0], search.candidates[-1]
    return [f"candidates: {len(search.candidates):,}, from {first} to {last}", f"planned: {expectation(search)}"]


def _told(search: Search, probes: Sequence[Probe], reason: str, unit: str) -> str:
    probe = probes[-1]
    match probe.value:
        case None:
            shown = ", ".join(filter(None, (probe.state.value, reason)))
        case Sweep():
            shown = counted(len(probe.value.measured), "point")
        case _:
            shown = quantity(probe.value, unit)
    return f"run {len(probes)} of at most {search.max_runs}: {search.candidates[probe.candidate]}: {shown}"


def _lines(
    search: Search, probes: Sequence[Probe], lines: Sequence[Mapping[str, Any]], found: Found, unit: str
) -> Iterator[str]:
    yield printable(found.reason)
    reasons = {line["candidate"]: line["reason"] for line in lines if line.get("reason")}
    measured = document(search, probes, found)["probes"]
    if found.good is not None:
        for name, candidate in (("good", found.good), ("bad", found.bad)):
            own = [one["value"] for one in measured if one["candidate"] == candidate and one["value"] is not None]
            yield printable(f"{name}: {candidate} ({', '.join(quantities(own, unit)) or 'not measured'})")
        for candidate in found.between:
            why = reasons.get(search.candidates.index(candidate), "")
            yield printable(f"between: {candidate} (could not be measured{f': {why}' if why else ''})")
    certainty = "" if found.certainty is None else f", {found.certainty:.1%} certain"
    yield f"{counted(len(lines), 'run')}{certainty}"
