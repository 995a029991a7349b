"""Measures one candidate of a search once: by a trial of the test, or by a command, after building its commit."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ml_metrics.bisection.probe import Probe, State
from ml_metrics.cli.arguments import UsageError
from ml_metrics.cli.commits import checked_out
from ml_metrics.cli.measuring import VALUE, Measured, last_line, measured, output_of
from ml_metrics.cli.search_question import COMMITS, parameter_of
from ml_metrics.errors import UnreadableInputError
from ml_metrics.experiments.trial_run import node_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the journal: one run, and what its version was built to."""

    probe: Probe
    built: str = ""
    """The image that the build command named."""
    reason: str = ""
    """Why nothing was measured."""
    host: str = ""

    def document(self) -> dict[str, Any]:
        """Return the line as JSON."""
        return {**asdict(self.probe), "built": self.built, "reason": self.reason, "host": self.host}


def probed(place: int, candidate: str, arguments: argparse.Namespace, before: Sequence[Line]) -> Line:
    """Measure a candidate once. An image that an earlier run built is not built again."""
    image = next((line.built for line in before if line.probe.candidate == place and line.built), "")
    needs_tree = arguments.candidates == COMMITS and (arguments.run or (arguments.build and not image))
    with checked_out(arguments.repository, candidate) if needs_tree else nullcontext() as tree:
        if arguments.build and not image:
            output = output_of(candidate, arguments.build, arguments.timeout, tree)
            if output.failed:
                return Line(Probe(place, None, State.UNTESTABLE), reason=f"it does not build: {output.failed}")
            image = "" if arguments.run else last_line(output.text)
            if not image and not arguments.run:
                raise UsageError("--build: the last line of its output should be the image that it has built")
        node = node_of(line.host for line in before) if arguments.same_node else ""
        found = (
            measured(candidate, arguments.run, arguments.timeout, tree)
            if arguments.run
            else _trial(arguments, image or candidate, node)
        )
    return replace(_line(place, found, arguments), built=image)


def _trial(arguments: argparse.Namespace, version: str, node: str) -> Measured:
    from ml_metrics.cli.trials import measured_trial

    return measured_trial(arguments, parameter_of(arguments), version, node)


def _line(place: int, found: Measured, arguments: argparse.Namespace) -> Line:
    if not found.testable:
        return Line(Probe(place, None, State.UNTESTABLE), reason=found.reason, host=found.host)
    wanted = arguments.metric or arguments.file_metric
    name = wanted if wanted in found.values else VALUE
    alone = next(iter(found.values.values()), None) if not wanted else None
    value = found.values.get(name, alone)
    missing = f"it did not measure {wanted}" if found.values and value is None else found.reason
    return Line(Probe(place, value, State.BROKEN if value is None else State.MEASURED), "", missing, found.host)


def line_of(where: str, line: Mapping[str, Any]) -> Line:
    """Return a line of a journal."""
    try:
        probe = Probe(int(line["candidate"]), line["value"], State(line["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableInputError(f"{where}: is not a probe: {error}") from error
    built, reason, host = (str(line.get(name) or "") for name in ("built", "reason", "host"))
    return Line(probe, built, reason, host)
