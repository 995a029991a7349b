"""`sources`: the files and services that metrics are read from."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from ml_metrics.config.patterns import Pattern
from ml_metrics.config.strict import Strict


class LinesAs(StrEnum):
    """How the lines of a file relate to each other."""

    SUB_RUNS = "sub_runs"
    POINTS = "points"


class ProcessInfo(StrEnum):
    """How the process metrics of a PerfZero benchmark are named."""

    PLAIN = "plain"
    PREFIXED = "prefixed"


class Literal(StrEnum):
    """A number about the run itself."""

    DURATION = "duration"
    ATTEMPTS = "attempts"
    QUEUE_TIME = "queue_time"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} cannot be part of the name of a metric")
    return text


def _by_name(literals: Any) -> Any:
    """Accept a list of literals, in which each keeps its own name."""
    if isinstance(literals, list | tuple):
        twice = {str(one) for one in literals if literals.count(one) > 1}
        if twice:
            raise ValueError(f"contains {', '.join(sorted(twice))} twice")
        return {str(one): one for one in literals}
    return literals


MetricName = Annotated[str, Field(min_length=1), AfterValidator(_printable)]
Prefix = Annotated[str, AfterValidator(_printable)]
Literals = Annotated[dict[MetricName, Literal], BeforeValidator(_by_name)]


class JsonLines(Strict):
    """Files with a line `{"metrics": {...}, "dimensions": {...}}` for each result."""

    enabled: bool = True
    """Whether they are read."""
    files: tuple[Pattern, ...] = ("*.jsonl",)
    """Patterns for their paths below the run folder."""
    lines: LinesAs = LinesAs.SUB_RUNS
    """`sub_runs`: each line is a result. `points`: lines with equal dimensions are points of a series."""
    named_by: tuple[str, ...] = ()
    """The dimensions that name sub-runs. Default: those in which the lines differ."""
    prefix: Prefix = ""
    """What the name of each metric begins with."""


class PerfZero(Strict):
    """The file `perfzero_summary.json` of a PerfZero benchmark."""

    enabled: bool = True
    """Whether it is read."""
    process_info: ProcessInfo = ProcessInfo.PLAIN
    """How process metrics are named: `plain`, as `max_rss`, or `prefixed`, as `process_info/max_rss`."""
    prefix: Prefix = ""
    """What the name of each metric begins with."""


class Sources(Strict):
    """The files and services that metrics are read from. A source without data adds nothing."""

    tensorboard: bool = True
    """TensorBoard event files."""
    streams: bool = True
    """Metric streams: `telemetry.jsonl`."""
    json_lines: JsonLines = Field(default_factory=JsonLines)
    """Results in JSON lines files."""
    perfzero: PerfZero = Field(default_factory=PerfZero)
    """The summary of a PerfZero benchmark."""
    profile: bool = True
    """The overview of a profile: `*.xplane.pb`."""
    memory: bool = True
    """The peak memory usage of the workload."""
    literals: Literals = Field(default_factory=dict)
    """Numbers about the run itself: a list of `duration`, `attempts` and `queue_time`, or a mapping of names."""
