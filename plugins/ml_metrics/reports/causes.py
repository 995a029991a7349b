"""The cause of a failure, which other tests may share: an image, a node, the cluster, a change, an error.

A cause is a text that names everything that must be the same. Tests are reported together only if their texts are
equal, so each kind of cause is narrow: the same reason of failure, or the same image, is none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.clusters.failure_reasons import JOB, reason_class
from ml_metrics.model import JobStatus
from ml_metrics.reports.log import log_of
from ml_metrics.reports.metric import as_stored
from ml_metrics.reports.problems import metric_of
from ml_metrics.values import short_hash
from ml_metrics.warehouse.record import Place
from ml_metrics.warehouse.references import good_before

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.reports.nodes import NodeOfRun
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Warehouse

MAX_LENGTH = 300
NODES = {"NodeLost": "was lost", "NodeShutdown": "was lost", "Preempted": "was preempted", "Evicted": "evicts pods"}
PROGRAM = ("ExitCode:", "OOMKilled", "DeadlineExceeded")
"""The prefix of reasons for which the workload itself fails, rather than the cluster."""
VERSION = re.compile(r"framework|(?!param\.)(?:.*[._-])?version")
"""The attributes of a run that are versions of a framework."""
ANYWHERE = re.compile(
    r"0x[0-9a-fA-F]+|(?<=/tmp/)[^/\s'\"]+|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|(?<=/)[0-9a-fA-F]{8,}(?=/)|(?<![\w.])\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w|\.\w)"
)
"""Numbers, addresses in memory and the random parts of paths. Addresses of hosts stay: they may be the cause."""
UNSPECIFIC = re.compile(
    r"(?:\w+\.)*(?:Assertion\w*|SystemExit|KeyboardInterrupt|MemoryError|Exception|Error)\b.*"
    r"|.*(?:memory|\boom\b|resource_exhausted|killed|exit (?:code|status)|non-zero|signal|\bsig[a-z]{3,4}\b|\bnan\b"
    r"|timed? ?out|deadline).*",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z]{3,}")
WORDS_OF_AN_ERROR = 3
"""An error with fewer words is too generic."""


def cause_of(  # noqa: PLR0913  (the sources of a cause)
    test: TestDefinition,
    run: Run,
    state: RunState,
    problems: Collection[str],
    *,
    warehouse: Warehouse | None,
    log_lines: int,
    node: NodeOfRun | None = None,
) -> str:
    """Return the cause of the problems of a run, which other tests may share; empty if none is known."""
    job = any(name.startswith(JOB) for name in problems)
    metrics = any(map(metric_of, problems)) and state.workload.status is JobStatus.SUCCESS
    cause = _of_cluster(test, state) if job else ""
    reason = reason_class(state.workload.failure_reason)
    of_program = job and state.workload.status is not JobStatus.MISSED and reason.startswith(PROGRAM)
    if not cause and metrics and not job and node is not None:
        cause = _of_node(state, problems, node)
    if not cause and (metrics or of_program) and warehouse is not None:
        cause = _of_change(run, state, problems, warehouse)
    if not cause and of_program and log_lines and state.workload.status is JobStatus.FAILURE:
        log = log_of(state.folder, state.workload.attempts, log_lines)
        line = specific_error(log.error) if log else ""
        cause = f"error in the log ({reason}): {line}" if line else ""
    return _shortened(" ".join(cause.split()))


def specific_error(line: str) -> str:
    """Return an error without its numbers; empty if it is too generic."""
    kind, _, text = line.partition(":")
    if UNSPECIFIC.fullmatch(line) or (len(WORD.findall(text)) < WORDS_OF_AN_ERROR and "NotFound" not in kind):
        return ""
    return without_numbers(line) if text.strip() else ""


def without_numbers(text: str) -> str:
    """Return a text without the parts that differ each time: numbers, addresses in memory, random parts of paths."""
    return ANYWHERE.sub("#", text)


def _of_cluster(test: TestDefinition, state: RunState) -> str:
    workload, reason = state.workload, reason_class(state.workload.failure_reason)
    cluster = test.cluster.address if test.cluster else ""
    where = f" of cluster {cluster}" if cluster else ""
    if reason == "ImagePullBackOff" and workload.image:
        return f"image cannot be pulled: {workload.image}"
    if reason == "ClusterUnreachable":
        return f"cluster cannot be reached: {cluster or 'the default cluster'}"
    if reason == "Unschedulable" and workload.detail:
        return f"no node{where} fits {test.accelerator.name}: {without_numbers(workload.detail)}"
    if reason in NODES and workload.node:
        return f"a node{where} {NODES[reason]}: {workload.node}"
    return ""


def _of_node(state: RunState, problems: Collection[str], node: NodeOfRun) -> str:
    """Return the slow node that explains all problems of a run; none, if there is another problem."""
    verdicts = {verdict.metric: verdict for verdict in state.judgement.verdicts} if state.judgement else {}
    broken = [verdicts.get(metric_of(problem)) for problem in problems]
    known = [verdict for verdict in broken if verdict is not None]
    return node.cause(known) if len(known) == len(broken) else ""


def _of_change(run: Run, state: RunState, problems: Collection[str], warehouse: Warehouse) -> str:
    """Return the image digest or the framework that is new since the good run before."""
    ended = state.workload.ended_at or datetime.now(UTC)
    verdicts = state.judgement.verdicts if state.judgement else ()
    named = set(map(metric_of, problems))
    rows = [as_stored(verdict, run, ended) for verdict in verdicts if verdict.metric in named]
    good = good_before(warehouse, Place(run.key, run.test, ended), rows)
    if good is None:
        return ""
    attributes = warehouse.attributes([run.test], {good.run_key: good.at, run.key: ended})
    before, now = attributes[good.run_key], dict(attributes[run.key])
    digest = state.workload.image_digest
    if digest and before.get("image_digest", digest) != digest:
        return f"new image: {digest}"
    return _of_version(before, now)


def _of_version(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    changed = (name for name in sorted(now) if VERSION.fullmatch(name) and before.get(name, now[name]) != now[name])
    name = next(changed, "")
    return f"new {name}: {now[name]}" if name else ""


def _shortened(cause: str) -> str:
    """Return a cause within the length of a line; texts that differ in their ends stay different."""
    if len(cause) <= MAX_LENGTH:
        return cause
    return f"{cause[: MAX_LENGTH - 18]}… {short_hash(cause)}"
