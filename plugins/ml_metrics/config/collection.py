"""`metric_collection_config`: where metrics are read from, which are kept, and how series are aggregated."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ml_metrics.config.aggregation import Steps, Strategy, TagAggregation, Warmup
from ml_metrics.config.expressions import Expression, Expressions, check_names, in_order
from ml_metrics.config.formats import Formats, Prefix, printable_name
from ml_metrics.config.log_profile import Logs
from ml_metrics.config.metric_facts import MetricFacts
from ml_metrics.config.patterns import NamePattern, Pattern, best_match
from ml_metrics.config.strict import Strict
from ml_metrics.kinds import is_generated

TOTAL_WALL_TIME = "total_wall_time"
TIME_TO_ACCURACY = "time_to_accuracy"
STEP_TIME = "step_time"
MEMORY = ("vm_memory_usage_bytes", "gpu_memory_usage_bytes")
SPELLINGS = ("metric_to_aggregation_strategy", "metric_to_aggregation_strategies")


class LinesAs(StrEnum):
    """How the lines of a file relate to each other."""

    SUB_RUNS = "sub_runs"
    POINTS = "points"


class Nulls(StrEnum):
    """What null stands for in a flat line."""

    NOT_FINITE = "not_finite"
    ABSENT = "absent"


class ProcessInfo(StrEnum):
    """How the process metrics of a PerfZero benchmark are named."""

    PLAIN = "plain"
    PREFIXED = "prefixed"


class Literal(StrEnum):
    """A number about the run itself."""

    DURATION = "duration"
    ATTEMPTS = "attempts"
    QUEUE_TIME = "queue_time"


def _by_name(literals: Any) -> Any:
    """Accept a list of literals, in which each keeps its own name."""
    if isinstance(literals, list | tuple):
        twice = {str(one) for one in literals if literals.count(one) > 1}
        if twice:
            raise ValueError(f"contains {', '.join(sorted(twice))} twice")
        return {str(one): one for one in literals}
    return literals


MetricName = Annotated[str, Field(min_length=1), AfterValidator(printable_name)]
Literals = Annotated[dict[MetricName, Literal], BeforeValidator(_by_name)]


class JsonLines(Strict):
    """Files of lines `{"metrics": {...}, "dimensions": {...}}` or `{"step": 1, "loss": 2.5}`."""

    enabled: bool = True
    """Whether they are read."""
    files: tuple[Pattern, ...] = ("*.jsonl",)
    """Patterns for their paths below the run folder."""
    lines: LinesAs = LinesAs.SUB_RUNS
    """`sub_runs`: each line is a result. `points`: lines with equal dimensions are points of a series."""
    named_by: tuple[str, ...] = ()
    """The dimensions that name sub-runs. Default: those in which the lines differ."""
    step: str = ""
    """The field with the step, or `line` to number the lines. Default: `step`, `_step`, `global_step`, ..."""
    time: str = ""
    """The field with the time. Default: `timestamp`, `_timestamp`, `wall_time`, `time`, ..."""
    nulls: Nulls = Nulls.NOT_FINITE
    """What null is in a flat line: `not_finite` (a failed measurement) or `absent` (no point)."""
    numbers_in_text: bool = False
    """Whether text such as `"1.453e+04"` is a number in a flat line."""
    log_records: bool = False
    """Whether the numbers of log records (lines with level and message) are read."""
    file_name_prefix: bool = False
    """Whether the name of the file becomes part of the tags of flat lines: `eval/loss`."""
    prefix: Prefix = ""
    """What the name of each metric begins with."""


class Csv(Strict):
    """Tables with a row of points for each step."""

    enabled: bool = True
    """Whether they are read."""
    files: tuple[Pattern, ...] = ("*.csv", "*.tsv")
    """Patterns for their paths below the run folder."""
    step: str = ""
    """The column with the step, or `line` to number the lines. Default: `step`, `_step`, `global_step`, ..."""
    time: str = ""
    """The column with the time. Default: `timestamp`, `_timestamp`, `wall_time`, `time`, ..."""
    file_name_prefix: bool = False
    """Whether the name of the file becomes part of the tags: `metrics/loss`."""
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


class Devices(Strict):
    """Text of the DCGM exporter or of `tpu-info` that a program in the pod wrote while the job ran."""

    enabled: bool = True
    """Whether it is read."""
    files: tuple[Pattern, ...] = ("*.prom", "*tpu-info*.txt")
    """Patterns for the paths of the files below the run folder."""
    prefix: Prefix = ""
    """What the name of each metric begins with."""


class Sources(Strict):
    """The files and services that metrics are read from. A source without data adds nothing."""

    tensorboard: bool = True
    """TensorBoard event files."""
    streams: bool = True
    """Metric streams: `telemetry.jsonl`."""
    json_lines: JsonLines = Field(default_factory=JsonLines)
    """Results and points in JSON lines files."""
    csv: Csv = Field(default_factory=Csv)
    """Points in tables of comma- or tab-separated values."""
    perfzero: PerfZero = Field(default_factory=PerfZero)
    """The summary of a PerfZero benchmark."""
    devices: Devices = Field(default_factory=Devices)
    """GPUs and TPUs while the job ran: utilization, memory, power, temperature, errors."""
    formats: Formats = Field(default_factory=Formats)
    """Files of other programs: benchmark tools, MLPerf, MLflow, ..."""
    logs: Logs = Field(default_factory=Logs)
    """The output of a program, by a log profile."""
    profile: bool = True
    """The overview of a profile: `*.xplane.pb`."""
    memory: bool = True
    """The peak memory usage of the workload."""
    literals: Literals = Field(default_factory=dict)
    """Numbers about the run itself: a list of `duration`, `attempts` and `queue_time`, or a mapping of names."""


class Restarts(StrEnum):
    """How points that a restarted workload wrote again are handled."""

    KEEP = "keep"
    SUPERSEDE = "supersede"


class TimeToAccuracy(Strict):
    """The time from the start of the run until a tag first reaches a value."""

    accuracy_tag: str
    """The tag to watch."""
    accuracy_threshold: float
    """The value that it must reach or exceed."""


class MetricCollectionConfig(Strict):
    """Which values of a run become metrics."""

    default_aggregation_strategies: tuple[Strategy, ...] = Field((Strategy.FINAL,), min_length=1)
    """How the points of a tag are aggregated; each strategy makes a metric named `<tag>_<strategy>`."""
    metric_to_aggregation_strategy: dict[NamePattern, tuple[Strategy, ...] | TagAggregation] = Field(
        default_factory=dict,
        validation_alias=AliasChoices(*SPELLINGS),
    )
    """Other strategies for some tags: a list, or a mapping with the keys below. Also accepted as
    `metric_to_aggregation_strategies`."""
    steps: Steps = Field(default_factory=Steps)
    """The steps whose points count, for all tags."""
    warmup: Warmup = Warmup.NONE
    """`auto` finds the warm-up of each tag by its level, and leaves it out."""
    tags_to_ignore: tuple[NamePattern, ...] = ()
    """Tags that are not collected: exact, globs for the whole tag, or `re:` and a regular expression."""
    include_tags: tuple[NamePattern, ...] = ()
    """If given, only these tags are collected."""
    time_to_accuracy: TimeToAccuracy | None = None
    """Adds the metric `time_to_accuracy`: the seconds until a tag first reaches a value."""
    write_to_bigquery: bool = True
    """Whether runs are written to the warehouse at all."""
    use_run_name_prefix: bool = False
    """Whether the sub-folder in which a tag was written becomes part of its name: `train/loss`."""
    restarts: Restarts = Restarts.KEEP
    """How points that a restarted workload wrote again are handled: `keep` or `supersede`."""
    metrics: dict[NamePattern, MetricFacts] = Field(default_factory=dict)
    """The unit and the better direction of metrics, by name or pattern, where their names do not tell."""
    expressions: Expressions = Field(default_factory=dict)
    """Metrics that are computed from tags, other metrics and facts, by name: an expression, or a mapping."""
    sources: Sources = Field(default_factory=Sources)
    """The files and services that metrics are read from."""

    @property
    def facts(self) -> dict[str, MetricFacts]:
        """What is known about metrics beside their names."""
        computed = self.computed.items()
        return {name: MetricFacts(unit=one.unit, better=one.better) for name, one in computed} | self.metrics

    @property
    def computed(self) -> dict[str, Expression]:
        """The expressions, by name."""
        return _as_mappings(self.expressions)

    @property
    def own_names(self) -> frozenset[str]:
        """The metrics that the config itself makes under names that the package uses, too."""
        key = best_match(self.metric_to_aggregation_strategy, STEP_TIME)
        chosen = () if key is None else self.metric_to_aggregation_strategy[key]
        strategies = chosen.strategies if isinstance(chosen, TagAggregation) else chosen
        made = (f"{STEP_TIME}_{one}" for one in strategies or self.default_aggregation_strategies)
        return frozenset(filter(is_generated, (*made, *self.sources.literals, *self.expressions)))

    @model_validator(mode="before")
    @classmethod
    def one_spelling(cls, content: Any) -> Any:
        """Reject both spellings of the key together: one of them would be ignored."""
        if isinstance(content, dict) and all(spelling in content for spelling in SPELLINGS):
            raise ValueError(f"{SPELLINGS[0]} and {SPELLINGS[1]} are two spellings of the same key; keep one")
        return content

    @field_validator("metric_to_aggregation_strategy", mode="after")
    @classmethod
    def last_n_is_used(cls, chosen: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Reject a number of points that none of the default strategies uses."""
        default = info.data.get("default_aggregation_strategies", (Strategy.LAST_N_MEAN,))
        for tag, one in chosen.items():
            unused = "last_n" in getattr(one, "model_fields_set", ()) and not one.strategies
            if unused and Strategy.LAST_N_MEAN not in default:
                raise ValueError(f"{tag}: last_n is used by last_n_mean only, and {tag} has {', '.join(default)}")
        return chosen

    @field_validator("expressions", mode="after")
    @classmethod
    def expressions_can_be_computed(cls, expressions: Expressions) -> Expressions:
        """Reject names that are taken, expressions that need each other, and what is measured too late."""
        check_names(_as_mappings(expressions))
        in_order(_as_mappings(expressions))
        return expressions

    @field_validator("sources", mode="after")
    @classmethod
    def one_source_for_each_name(cls, sources: Sources, info: ValidationInfo) -> Sources:
        """Reject a literal whose name another source uses, as far as names are known before a run."""
        used = _predictable_names(info.data, sources)
        for name, literal in sources.literals.items():
            if name in used:
                raise ValueError(
                    f"literals: the metric {name!r} is also {used[name]}; "
                    f"rename the literal: {{run_{literal}: {literal}}}"
                )
        return sources


def _as_mappings(expressions: Expressions) -> dict[str, Expression]:
    return {name: Expression(expression=one) if isinstance(one, str) else one for name, one in expressions.items()}


def _predictable_names(config: dict[str, Any], sources: Sources) -> dict[str, str]:
    """Return the metrics whose names are known before a run, with their origin. `config` lacks its invalid fields."""
    default = config.get("default_aggregation_strategies", ())
    strategies = {
        tag: (chosen.strategies or default) if isinstance(chosen, TagAggregation) else chosen
        for tag, chosen in config.get("metric_to_aggregation_strategy", {}).items()
    }
    names = {TOTAL_WALL_TIME: "computed for every run"}
    names |= dict.fromkeys(config.get("expressions", ()), "computed by `expressions`")
    if sources.memory:
        names |= dict.fromkeys(MEMORY, "reported by `memory`")
    if (watched := config.get("time_to_accuracy")) is not None:
        names[TIME_TO_ACCURACY] = "computed"
        strategies.setdefault(watched.accuracy_tag, default)
    return names | {
        f"{tag}_{strategy}": f"made from the tag {tag!r}" for tag, chosen in strategies.items() for strategy in chosen
    }
