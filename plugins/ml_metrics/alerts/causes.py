"""The cause of a failure, which other tests may share: an image, a node, the cluster, a change, an error.

A cause is a text that names everything that must be the same. Tests are reported together only if their texts are
equal, so each kind of cause is narrow: the same reason of failure, or the same image, is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.job import log_of
from ml_metrics.alerts.metric import MetricHistory, Streak, TestHistory, as_stored
from ml_metrics.alerts.problems import metric_of
from ml_metrics.config.conditions import MinChange
from ml_metrics.config.definition import TestDefinition
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.model import JOB, JobStatus, Run, StoredMetric, Verdict, Workload, reason_class
from ml_metrics.core.units import duration
from ml_metrics.core.values import finite, short_digests, short_hash
from ml_metrics.judge import change_text, changed
from ml_metrics.pipeline import attributes_of
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Place, Warehouse, good_before, nodes_of_runs

if TYPE_CHECKING:
    from ml_metrics.judge import Movement  # whose module imports numpy
    from ml_metrics.measure.efficiency import NodeEffect, NodeRun
    from ml_metrics.pipeline import RunState


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
WORDS_OF_AN_ERROR = 3
"""An error with fewer words is too generic."""
MOVED = "moved together: "
"""The prefix of causes that a test is found to share by how it moved."""
NIGHT, EARLIER, DAYS_OF_NEWS = timedelta(hours=36), timedelta(days=14), timedelta(days=4)
"""The newest run of a test is of the same night; what is new is new within four days, as a level may be told late."""
NODE_METRICS = ("step_time_p50", "total_wall_time")
"""The metrics by which nodes are compared, in this order: each test by the first that it has."""
NODE_DAYS = 60
MAX_VALUES, MAX_TESTS = 20_000, 1_000
MAX_COMPARED = 6
"""The metrics of one run by which nodes are compared: a run may fail hundreds, and each takes queries."""
SAME_YEAR = 300
"""In days. An older date includes its year."""
FEWEST_VALUES = 8
"""A metric with fewer values of a test is not used for it."""


def cause_of(
    test: TestDefinition,
    run: Run,
    state: RunState,
    problems: Collection[str],
    *,
    warehouse: Warehouse | None,
    log_lines: int,
    node: NodeOfRun | None = None,
    shared: str = "",
) -> str:
    """The cause of the problems of a run, which other tests may share; empty if none is known.

    `shared` is the one with which its metrics moved together with those of other tests.
    """
    workload = state.workload
    job = any(problem.startswith(JOB) for problem in problems)
    metrics = any(map(metric_of, problems)) and workload.status is JobStatus.SUCCESS
    reason = reason_class(workload.failure_reason)
    of_program = job and workload.status is not JobStatus.MISSED and reason.startswith(PROGRAM)
    cause = _of_cluster(test, workload, reason) if job else ""
    if not cause and metrics and not job and node is not None:
        # none, if there is another problem
        broken = _verdicts(state, problems)
        cause = node.cause([verdict for verdict in broken if verdict is not None]) if None not in broken else ""
    cause = cause or shared
    if not cause and (metrics or of_program) and warehouse is not None:
        cause = _of_change(test, run, state, problems, warehouse)
    if not cause and of_program and log_lines and workload.status is JobStatus.FAILURE:
        log = log_of(state.folder, workload.attempts, log_lines)
        line = specific_error(log.error) if log else ""
        cause = f"error in the log ({reason}): {line}" if line else ""
    cause = " ".join(cause.split())
    # texts that differ in their ends stay different
    return cause if len(cause) <= MAX_LENGTH else f"{cause[: MAX_LENGTH - 18]}… {short_hash(cause)}"


def _verdicts(state: RunState, problems: Iterable[str]) -> list[Verdict | None]:
    verdicts = {verdict.metric: verdict for verdict in state.judgement.verdicts} if state.judgement else {}
    return [verdicts.get(metric_of(problem)) for problem in problems]


def specific_error(line: str) -> str:
    """An error without its numbers; empty if it is too generic."""
    kind, _, text = line.partition(":")
    words = len(re.findall("[A-Za-z]{3,}", text))
    if UNSPECIFIC.fullmatch(line) or (words < WORDS_OF_AN_ERROR and "NotFound" not in kind):
        return ""
    return without_numbers(line) if text.strip() else ""


def without_numbers(text: str) -> str:
    """A text without the parts that differ each time: numbers, addresses in memory, random parts of paths."""
    return ANYWHERE.sub("#", text)


def _of_cluster(test: TestDefinition, workload: Workload, reason: str) -> str:
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


def _of_change(test: TestDefinition, run: Run, state: RunState, problems: Collection[str], warehouse: Warehouse) -> str:
    ended = state.workload.ended_at or datetime.now(UTC)
    rows = [as_stored(verdict, run, ended) for verdict in _verdicts(state, problems) if verdict is not None]
    good = good_before(warehouse, Place(run.key, run.test, ended), rows)
    if good is None:
        return ""
    own = run.key, partial(attributes_of, test, state)
    attributes = warehouse.attributes([run.test], {good.run_key: good.at}, own)
    for name, before, now in changed(attributes[good.run_key], attributes[run.key]):
        if before and now and (name == "image_digest" or VERSION.fullmatch(name)):
            return f"new {'image' if name == 'image_digest' else name}: {now}"
    return ""


def moved_together(run: Run, state: RunState, problems: Iterable[str], warehouse: Warehouse) -> Movement | None:
    """What moved each of some broken metrics of a run, and other tests in the same night; None if nothing did.

    A metric that moved further than the tests with which it moved is broken by itself.
    """
    from ml_metrics.judge import attributes_shared, movements, places, position

    broken = _verdicts(state, problems)
    until = state.workload.ended_at or datetime.now(UTC)
    stored = [position(as_stored(verdict, run, until)) for verdict in broken if verdict is not None]
    own = [one for one in stored if one is not None]
    if not own or len(own) < len(broken) or len({kind for kind, _, _ in own}) > 1:
        return None
    tests = [one.newest.test for one in warehouse.runs.tests()][:MAX_TESTS]
    newest, before = {}, {}
    for one in warehouse.runs.between(until - EARLIER, until + NIGHT, tests):
        if one.job_status == JobStatus.SUCCESS and (one.test != run.test or one.run_key == run.key):
            newest[one.test] = one
        if one.at < until - DAYS_OF_NEWS or one.test not in before:
            before[one.test] = one
    night = {test: one for test, one in newest.items() if one.at > until - NIGHT}
    if run.test not in night:
        return None
    ends = {one.run_key: one.at for one in (*night.values(), *(before[test] for test in night))}
    attributes = warehouse.attributes(list(night), ends)
    hours = {one.run_key: f"{(hour := one.at.hour // 4 * 4):02}:00 to {hour + 4:02}:00 UTC" for one in night.values()}
    of_day = {key: {"time_of_day": text} for key, text in hours.items()} if len(set(hours.values())) > 1 else {}
    shared = {
        one.run_key: attributes_shared(
            {**attributes[one.run_key], **of_day.get(one.run_key, {})}, attributes[before[test].run_key]
        )
        for test, one in night.items()
    }
    of_kind = places(warehouse.metrics.judged({one.run_key: one.at for one in night.values()}), shared)
    for found in movements(of_kind.get(own[0][0], [])):
        if found.explains(run.test, [(shift, noise) for _, shift, noise in own]):
            return found
    return None


def cause_of_movement(together: Movement) -> str:
    """The cause of tests that moved together. What is new has the same text as where it is found otherwise."""
    return together.cause if together.cause.startswith("new ") else f"{MOVED}{together.cause}"


def explain_earlier(together: Movement, test: str, warehouse: Warehouse) -> None:
    """Give the open incidents of the other tests their cause: the first message was sent before others moved."""
    others = set(together.moved) - set(together.apart) - {test}
    for name, incident in warehouse.incidents.all_open().items():
        is_new = name in others and not incident.cause and incident.opened_at > datetime.now(UTC) - NIGHT
        if is_new and all(map(metric_of, incident.reported)):
            warehouse.incidents.explain(incident, cause_of_movement(together))


@dataclass(frozen=True, slots=True)
class NodesFound:
    """The effects of all nodes that were compared."""

    effects: tuple[NodeEffect, ...]
    runs: int
    """The runs that were compared."""
    unknown: int
    """Runs with a value whose node is not recorded."""
    cut: bool = False
    """Whether there are more values than were read."""

    def document(self) -> dict[str, Any]:
        shown = ("slow", "percent", "low", "high", "runs", "visits")
        nodes = [
            {"node": one.name, **{name: getattr(one, name) for name in shown}, "tests": list(one.tests)}
            for one in self.effects
        ]
        return {"runs": self.runs, "runs_without_node": self.unknown, "cut": self.cut, "nodes": nodes}


def nodes_found(
    warehouse: Warehouse,
    tests: Sequence[str],
    since: datetime,
    until: datetime,
    *,
    metrics: Sequence[str] = NODE_METRICS,
    without: str = "",
) -> NodesFound:
    """Compare the nodes of the runs of some tests. `without`: the key of a run that is left out."""
    from ml_metrics.measure.efficiency import node_effects  # numpy, which a run that passes does not need

    names = list(tests)[:MAX_TESTS]
    values = warehouse.metrics.of_tests(names, list(metrics), since, until, MAX_VALUES + 1)
    usable = [one for one in values[:MAX_VALUES] if one.job_status is JobStatus.SUCCESS and one.run_key != without]
    place = {name: index for index, name in enumerate(metrics)}
    usable.sort(key=lambda one: (one.test, place.get(one.metric, len(place)), one.timestamp, one.run_key))
    chosen = []
    for _, of_test in groupby(usable, key=lambda one: one.test):
        groups = (list(group) for _, group in groupby(of_test, key=lambda one: one.metric))
        chosen.append(next((group for group in groups if len(group) >= FEWEST_VALUES), []))
    nodes = nodes_of_runs(warehouse.database, names, since, until, MAX_VALUES) if chosen else {}
    runs = [run for group in chosen for run in _runs_of(group, nodes)]
    known = [run for run in runs if run.nodes]
    cut = len(values) > MAX_VALUES or len(tests) > MAX_TESTS
    return NodesFound(tuple(node_effects(known)), len(known), len(runs) - len(known), cut)


def _runs_of(values: Sequence[StoredMetric], nodes: dict[str, tuple[str, ...]]) -> Iterable[NodeRun]:
    from ml_metrics.judge import change_points
    from ml_metrics.measure.efficiency import NodeRun

    usable = [(one, value) for one in values if (value := finite(one.value)) is not None]
    edges = {step.index for step in change_points([value for _, value in usable], certainty=0.5)}
    period = 0
    for index, (one, value) in enumerate(usable):
        period += index in edges
        yield NodeRun(one.test, one.run_key, one.timestamp.timestamp(), nodes.get(one.run_key, ()), value, period)


@dataclass(frozen=True, slots=True)
class NodeOfRun:
    """Whether a slow node, rather than a change, explains what is wrong with a run. Each metric is compared once."""

    run: Run
    workload: Workload
    warehouse: Warehouse
    compared: dict[str, NodeEffect | None] = field(default_factory=dict)
    """By metric: the slowest node of the run, if one of them is slow."""

    def explains(self, verdict: Verdict) -> NodeEffect | None:
        """The node without whose effect the value of a metric would be within its bounds; None if none is."""
        value, bounds, metric = finite(verdict.value), verdict.bounds, verdict.metric
        own = set(filter(None, (self.workload.nodes or self.workload.node or "").split(",")))
        if not own or value is None or value <= 0 or bounds is None or value <= bounds.upper:
            return None
        if metric not in self.compared:
            if len(self.compared) >= MAX_COMPARED:
                return None
            until = self.workload.ended_at or datetime.now(UTC)
            tests = [one.newest.test for one in self.warehouse.runs.tests()]
            since = until - timedelta(days=NODE_DAYS)
            found = nodes_found(self.warehouse, tests, since, until, metrics=(metric,), without=self.run.key)
            slow = [one for one in found.effects if one.slow and one.name in own]
            self.compared[metric] = max(slow, key=lambda one: one.percent, default=None)
        worst = self.compared[metric]
        return worst if worst is not None and value / (1 + worst.percent / 100) <= bounds.upper else None

    def cause(self, verdicts: Iterable[Verdict]) -> str:
        found = set()
        for verdict in verdicts:
            node = self.explains(verdict)
            if node is None:
                return ""
            found.add(node.name)
        return f"slow node, not change: {found.pop()}" if len(found) == 1 else ""

    def sentence(self, verdict: Verdict) -> str:
        worst = self.explains(verdict)
        if worst is None:
            return ""
        return (
            f"{verdict.metric}: node, not change: runs on node {worst.name} take {worst.percent:.1f} % longer than "
            f"others ({worst.low:.1f} to {worst.high:.1f} %, {worst.runs} runs); without that, this run is within its "
            "bounds"
        )


def level_change(
    now: StoredMetric, history: MetricHistory, first_failed: str, attributes: Mapping[str, Mapping[str, str]]
) -> str:
    """A sentence on the last change of the metric's level if it may have led to the failure; else empty.

    Such a change came before the first failed run, and not in the opposite direction of the value that failed.
    """
    from ml_metrics.judge import changes_in

    changes = changes_in(
        # smaller changes of a level explain no failure
        [*history.points(), replace(now, outcome=None)],
        min_change=MinChange(percent=1),
        attributes=attributes,
    )
    keys = [value.run_key for value in history.values]
    before = keys[: keys.index(first_failed)] if first_failed in keys else keys
    if not changes or changes[-1].run_key not in before:
        return ""
    rose, value = changes[-1].after > changes[-1].before, now.value
    opposite = value is not None and rose != (value > changes[-1].before)
    return "" if opposite else f"{now.metric}: {changes[-1]}"


def straggler(goodput: Mapping[str, Any] | None) -> tuple[str, ...]:
    hosts = (goodput or {}).get("host_step_times") or {}
    culprit = hosts.get("slow_host") or hosts.get("late_host")
    return (f"One host holds the others up: {hosts['summary']}",) if culprit else ()


def fault_sentences(faults: Iterable[Mapping[str, Any]], usual: float | None = None) -> list[str]:
    """What became of each planned fault of a run: `kill on host 0 at step 50: recovered in 48 s, usually 31 s`."""
    usually = "" if usual is None else f", usually {duration(usual)}"
    told = [_fault_sentence(one, usually) for one in faults]
    return [*told[:10], *([f"and {len(told) - 10} more"] if told[10:] else [])]


def _fault_sentence(one: Mapping[str, Any], usually: str) -> str:
    hosts = ", ".join(map(str, one["hosts"]))
    what = f"{one['what']}{f' on host {hosts}' if hosts else ''} ({one['at']})"
    if one["state"] != "done":
        return f"{what}: not inflicted, {one['note'] or one['state']}"
    if one["recovered"] is None:
        return f"{what}: {'the run ended well' if one['survived'] else 'not recovered'}"
    parts = {"restoring": one["restoring"], "computing steps again": one["recomputed"]}
    longest, seconds = max(parts.items(), key=lambda part: part[1] or 0.0)
    mostly = f": {duration(seconds)} of it in {longest}" if (seconds or 0.0) >= 0.1 * one["recovered"] else ""
    lost = f"; {one['steps_lost']} steps lost" if one["steps_lost"] else ""
    jump = f"; {one['loss_jump']}" if one["loss_jump"] else ""
    return f"{what}: recovered in {duration(one['recovered'])}{usually}{mostly}{lost}{jump}"


@dataclass(frozen=True, slots=True)
class Start:
    """The first of bad runs in a row, the last good run before it, and what changed between both."""

    length: int
    first_bad: str
    """Empty if it is the run itself."""
    last_good: str
    since: str
    changes: tuple[tuple[str, object, object], ...]
    """The name of each, and both values; the image comes first."""

    @classmethod
    def of(cls, streak: Streak, run: Run, folder: RunFolder, history: TestHistory) -> Start:
        times = {job.uuid: job.timestamp for job in history.jobs}
        first, good = (
            f"run {key[:8]}{f' of {times[key]:%Y-%m-%d %H:%M}' if key in times else ''}" if key else ""
            for key in (streak.first_failed, streak.last_passed)
        )
        if streak.first_failed == run.key:
            first = ""
        at = times.get(streak.first_failed) if first else None
        changes: list[tuple[str, object, object]] = []
        if good:
            before, after = (history.attributes.get(key, {}) for key in (streak.last_passed, streak.first_failed))
            files = (_test_file(folder, key) for key in (streak.last_passed, streak.first_failed))
            changes = [*changed(before, after), *changed(*files)]
        year = f" {at.year}" if at and (history.jobs[-1].timestamp - at).days > SAME_YEAR else ""
        return cls(streak.length, first, good, f" since {at.day} {at:%b}{year}" if at else "", tuple(changes))

    @property
    def changed(self) -> str:
        return "; ".join(change_text(*one) for one in self.changes)

    def sentence(self, problems: Sequence[str]) -> str:
        each = ", ".join(problems)
        start = f"{each}: this run is the first that failed"
        if self.first_bad:
            start = f"{each}: failed in {self.length} runs in a row, first in {self.first_bad}"
        if not self.last_good:
            return f"{start}; no earlier run passed"
        between = f"Changed in between: {self.changed}" if self.changes else "No recorded change in between"
        return f"{start}; the last that passed was {self.last_good}. {between}"

    def first_look(self) -> str:
        look = "This run is the first bad one"
        if self.first_bad:
            look = f"Look at {self.first_bad}, the first of {self.length} bad ones in a row"
        if not self.last_good:
            return f"{look}; no earlier run is known to be good."
        what = "nothing that is recorded changed: neither image nor parameters nor test file"
        what = f"this changed: {self.changed}" if self.changes else what
        return f"{look}; between it and the last good one, {self.last_good}, {what}."

    def in_subject(self) -> str:
        """Since when, if not since this run, and what changed: ` since 12 Nov; image 2.1.0 → 2.2.0`."""
        if not self.changes:
            return self.since
        name, before, after = self.changes[0]
        if name.startswith("image"):  # the repository is the same for both
            old, new = (re.split("(?<=[/:@])", short_digests(str(one or "none"))) for one in (before, after))
            at = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
            before, after = (re.sub("([0-9a-f]{8})[0-9a-f]{4}…", r"\1", "".join(one[at:])) for one in (old, new))
        # a new image has a new digest as well
        more = [other for other, _, _ in self.changes[1:] if (name, other) != ("image", "image_digest")]
        text = f"{name} changed"
        if max(len(str(before)), len(str(after))) <= 40:
            text = change_text(name.removesuffix("_digest"), before, after).replace(": ", " ", 1)
        return f"{self.since}; {text}{f' and {len(more)} more' if more else ''}"


def _test_file(folder: RunFolder, run_key: str) -> dict[str, object]:
    """The keys of the test file of another run of the test; none if its folder is gone or damaged."""
    parent = folder.path.rstrip("/").rpartition("/")[0]
    try:
        identity = replace(folder, path=storage.join(parent, run_key)).read("run") or {}
    except MlMetricsError:
        return {}
    file = identity.get("test_file")
    # the rows have the image that ran
    keys = file.items() if isinstance(file, dict) else ()
    return {f"test file {name}": value for name, value in keys if name != "image"}
