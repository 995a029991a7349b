"""The question of `bisect`: its candidates, from a file or from the history of a test, and the values of both ends."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.bisection.search import Search
from ml_metrics.cli.arguments import UsageError
from ml_metrics.cli.chosen_warehouse import open_chosen
from ml_metrics.cli.commits import commits_between, is_commit
from ml_metrics.cli.trial_checks import check_trial, definition_of
from ml_metrics.config.problems import did_you_mean
from ml_metrics.errors import UnreadableInputError
from ml_metrics.experiments import candidates
from ml_metrics.experiments.candidates import Candidates, candidates_of
from ml_metrics.experiments.past_versions import IMAGE, Span, versions_between
from ml_metrics.experiments.request import Places
from ml_metrics.judge.input_files import read_repeats
from ml_metrics.settings import Settings
from ml_metrics.values import finite, printable

if TYPE_CHECKING:
    import argparse

IMAGES, TAGS, COMMITS, PACKAGES = "images", "tags", "commits", "packages"
PARAMETERS = {COMMITS: "commit", PACKAGES: "packages"}
"""The parameter of the test that takes such a candidate, if `--parameter` names none."""
SOURCES = {IMAGES: candidates.HISTORY, TAGS: candidates.TAGS, PACKAGES: candidates.PACKAGES}
ASKED = ("test", "metric", "candidates", "good", "bad", "max_runs", "effect", "run", "build", "repository")


def parameter_of(arguments: argparse.Namespace) -> str:
    """Return what differs between the candidates."""
    if arguments.parameter:
        return str(arguments.parameter)
    return IMAGE if arguments.build else PARAMETERS.get(arguments.candidates, IMAGE)


def asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the question about a test. It stays the same while the history grows."""
    return {**{name: getattr(arguments, name) for name in ASKED}, "parameter": parameter_of(arguments)}


def search_of_files(arguments: argparse.Namespace) -> Search:
    """Return the search of candidates and values that are in files."""
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


def search_of_test(arguments: argparse.Namespace) -> Search:
    """Return the search between two runs of a test. The candidates are listed once: the history grows."""
    parameter, source = parameter_of(arguments), arguments.candidates
    span = Span(arguments.test, parameter, arguments.metric, arguments.good or "", arguments.bad or "")
    if source == COMMITS:
        found = _commits(arguments, span)
    else:
        definition = definition_of(arguments.test)
        image = definition.image if definition else ""
        if source == TAGS and not image:
            raise UsageError(f"{arguments.test} has no test file here that states its image: list the candidates")
        places = Places(Settings.load(), lambda: open_chosen(arguments))
        kind = SOURCES.get(source, candidates.LIST)
        lines = "\n".join(listed(source)) if kind == candidates.LIST else None
        found = candidates_of(kind, lines, image or "", span, places)
    if not arguments.run:
        check_trial(arguments.test, parameter, () if arguments.build else found.versions)
    return Search(found.versions, arguments.max_runs, found.good, found.bad, arguments.effect)


def _commits(arguments: argparse.Namespace, span: Span) -> Candidates:
    """Return the commits between two that are named, or that two runs recorded."""
    if all(is_commit(arguments.repository, end) for end in (span.good, span.bad)):
        return Candidates(commits_between(arguments.repository, span.good, span.bad))
    recorded = Span(span.test, arguments.parameter or PARAMETERS[COMMITS], span.metric, span.good, span.bad)
    with open_chosen(arguments) as warehouse:
        versions, good, bad = versions_between(warehouse, recorded)
    return Candidates(commits_between(arguments.repository, versions[0], versions[-1]), good, bad)


def listed(path: str) -> tuple[str, ...]:
    """Return the lines of a file of candidates."""
    try:
        lines = storage.read_bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UnreadableInputError(f"{path}: is not UTF-8 text: {error.reason}") from error
    found = tuple(line.strip() for line in lines if line.strip())
    if hidden := next((line for line in found if "\0" in line), None):
        raise UnreadableInputError(f"{path}: {printable(hidden)} holds a NUL byte")
    return found


def begun(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the data in the journal of a test's search besides the question."""
    return {"search": asdict(search_of_test(arguments))}


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
