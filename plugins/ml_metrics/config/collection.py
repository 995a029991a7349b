"""`metric_collection_config`: where metrics are read from, which are kept, and how series are aggregated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from ml_metrics.config.formula import Of, Reference, formula
from ml_metrics.config.paths import check_name, parts_of
from ml_metrics.config.patterns import NamePattern, Pattern, best_match, check_expression, compiled, is_pattern
from ml_metrics.config.strict import OneOf, Strict, checked
from ml_metrics.core.kinds import (
    HIGHER,
    LOWER,
    NEITHER,
    Kind,
    Measure,
    is_generated,
    kind_of,
    may_be_own,
    without_strategy,
)
from ml_metrics.core.model import Stated
from ml_metrics.core.text import did_you_mean

Count = Annotated[int, Field(strict=True, ge=0)]


class Strategy(StrEnum):
    """How the points of a tag are aggregated to one number."""

    FINAL = "final"
    MAX = "max"
    MIN = "min"
    AVERAGE = "average"
    MEDIAN = "median"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    STD = "std"
    TRIMMED_MEAN = "trimmed_mean"
    LAST_N_MEAN = "last_n_mean"
    FIRST = "first"
    COUNT = "count"


Warmup = Literal["auto", "none"]
"""Whether the warm-up of a tag is left out."""


class Steps(Strict):
    """The steps whose points count."""

    skip_first: Count = 0
    """How many of the steps that the tag has are left out at the beginning."""
    from_step: Count | None = Field(None, validation_alias="from")
    """The first step that counts."""
    to_step: Count | None = Field(None, validation_alias="to")
    """The last step that counts."""

    @model_validator(mode="after")
    def in_order(self) -> Self:
        if self.from_step is not None and self.to_step is not None and self.from_step > self.to_step:
            raise ValueError(f"from: {self.from_step} is after to: {self.to_step}: no step is between them")
        return self

    def __str__(self) -> str:
        given = {"skip_first": self.skip_first or None, "from": self.from_step, "to": self.to_step}
        return ", ".join(f"{name}: {value}" for name, value in given.items() if value is not None)


class TagAggregation(Strict):
    """How the points of one tag, or of the tags that match a pattern, are aggregated."""

    strategies: tuple[Strategy, ...] = ()
    """The strategies. Default: `default_aggregation_strategies`."""
    steps: Steps | None = None
    """The steps whose points count, instead of those for all tags. `{}` is every step."""
    warmup: Warmup | None = None
    """`auto` or `none`, instead of the choice for all tags."""
    last_n: Annotated[int, Field(strict=True, ge=1)] = 10
    """The number of points of `last_n_mean`."""

    @model_validator(mode="after")
    def last_n_is_used(self) -> Self:
        if "last_n" in self.model_fields_set and self.strategies and Strategy.LAST_N_MEAN not in self.strategies:
            raise ValueError(f"last_n is used by last_n_mean only, and `strategies` has {', '.join(self.strategies)}")
        return self


FORMAT_FILES = (
    "*.json", "*.log", "*.out", "*.txt", "*.prom", "*.om", "*.wandb", "*/metrics/*", "metrics/*", "*.xml", "*.js",
    "*.db", "*/plots/metrics/*.tsv", "plots/metrics/*.tsv",
    "*.jsonl", "*.csv", "*.md", "*.dat", "*.dat.*",
)  # fmt: skip
"""The files whose content is looked at for a known format. Other `*.jsonl` and `*.csv` have a source of their own."""


def printable_name(text: str) -> None:
    if not text.isprintable():
        raise ValueError(f"{text!r} cannot be part of the name of a metric")


Prefix = Annotated[str, checked(printable_name)]
FormatName = Literal[
    "pytest-benchmark", "google-benchmark", "hyperfine", "asv", "github-action-benchmark", "bencher", "vllm-serve",
    "hud", "mllog", "dllogger", "mlflow", "mlflow-database", "wandb", "openmetrics", "json-lines", "dvclive",
    "hf-trainer-state", "hf-results", "wandb-summary", "fio", "iperf3", "jmh", "otlp", "evals-result", "junit",
    "sysbench", "benchmark-data", "perfherder",
    "inference-perf", "sglang", "aiperf", "aiperf-csv", "vllm-list", "trtllm-bench", "inferencex", "llama-bench",
    "llama-benchy", "nccl-tests", "nccl-tests-json", "osu", "perftest", "mlperf-storage", "mlperf-loadgen",
]  # fmt: skip
"""A format that other programs write."""


class Source(Strict):
    """Files that metrics are read from."""

    enabled: bool = True
    """Whether they are read."""
    prefix: Prefix = ""
    """What the name of each metric begins with."""


class Formats(Source):
    """Files of other programs, recognised by their content."""

    files: tuple[Pattern, ...] = FORMAT_FILES
    """The files that are looked at."""
    stated: dict[FormatName, tuple[Pattern, ...]] = Field(default_factory=dict)
    """Files that are not recognised, or look like several formats."""
    named_by: tuple[str, ...] = ()
    """The settings that name a series. Default: those in which results differ."""


STEP = "step"
"""The group that is the step of a point."""


ProfileName = Literal["maxtext", "megatron", "torchtitan", "nemo", "keras", "hugging-face", "boosting"]
"""A program whose lines are known."""


class LogLine(Strict):
    """One kind of line."""

    line: Annotated[str, checked(check_expression)]
    """A regular expression. Named groups are tags; `step` is the step."""
    example: str
    """A line that must match, which `validate` checks."""
    contains: str = ""
    """Lines without this text are skipped, much faster."""

    @model_validator(mode="after")
    def matches_its_example(self) -> LogLine:
        expression = compiled(self.line)
        tags = [name for name in expression.groupindex if name != STEP]
        if not tags:
            raise ValueError("line: has no named group such as (?P<loss>[0-9.]+); each is a tag")
        match = expression.search(self.example)
        if match is None or self.contains not in self.example:
            raise ValueError(f"example: {self.example!r} does not match `line`, or lacks `contains`")
        if not any(match.group(tag) for tag in tags):
            raise ValueError("example: `line` matches it, and none of its groups has a text")
        return self


class LogProfile(Strict):
    """The lines of one program."""

    lines: tuple[LogLine, ...] = Field(min_length=1)
    """The kinds of lines. The first one that matches counts."""


class Logs(Strict):
    """The output of a program, in files."""

    profile: ProfileName | None = None
    """The program. Without it and `profiles`, no log is read."""
    profiles: dict[str, LogProfile] = Field(default_factory=dict)
    """Your own profiles. Of the `lines`, the first that matches counts."""
    files: tuple[Pattern, ...] = ("*.log", "*.out", "*.txt")
    """Patterns for paths below the run folder."""
    prefix: Prefix = "log/"
    """What the name of each metric begins with."""


class Better(StrEnum):
    """The direction in which a metric improves."""

    HIGHER = HIGHER
    LOWER = LOWER
    NEITHER = NEITHER
    """Neither: a change is never worse in itself."""


def _check_unit(unit: str) -> None:
    if not unit.isprintable() or unit != unit.strip():
        raise ValueError(f"{unit!r} is not a unit: write it as it stands behind a number, such as `tokens/s`")


Unit = Annotated[str, Field(max_length=30), checked(_check_unit)]


class MetricFacts(Strict):
    """The unit of a metric, and the direction in which it improves."""

    unit: Unit | None = None
    """The unit: `s`, `B` and `%` are scaled (12 min, 3.09 GB), others are shown as they are."""
    better: Better | None = None
    """`higher`, `lower` or `neither`. The condition `default` judges only the worse side."""
    measure: Measure | None = None
    """What it measures: a `ratio`, a `loss`, a `count` of events, or another `quantity`."""


def known_about(metric: str, facts: Mapping[str, MetricFacts], stated: Stated | None = None) -> Kind:
    """The facts given for the metric or its tag, else what its file or name states."""
    kind = kind_of(metric)
    if stated is not None and not metric.endswith("_count"):
        better = kind.better if metric.endswith("_std") else stated.better or kind.better
        kind = replace(kind, unit=stated.unit or kind.unit, better=better)
    if not facts:
        return kind
    tag = without_strategy(metric)
    own = best_match(facts, metric)
    key = own or best_match(facts, tag)
    if key is None or (own is None and metric == f"{tag}_count"):  # a number of points, whatever they measure
        return kind
    given = facts[key]
    unit = kind.unit if given.unit is None else given.unit
    is_spread = own is None and metric == f"{tag}_std"
    better = kind.better if given.better is None or is_spread else given.better.value
    return replace(kind, unit=unit, better=better, measure=given.measure or kind.measure)


FACTS = ("chips", "hosts", "slices", "peak_flops", "duration")
"""The names that are not of the run's tags and metrics, but of what it ran on."""


Text = Annotated[str, checked(formula)]


class Expression(Strict):
    """A metric that is computed."""

    expression: Text
    """The expression."""
    unit: Unit | None = None
    """The unit of its values, such as `tokens/s`."""
    better: Better | None = None
    """Whether `higher` or `lower` values are better, or `neither`."""


Expressions = dict[Annotated[str, Field(min_length=1, max_length=200)], Text | Expression]


def in_order(expressions: Mapping[str, Expression]) -> tuple[str, ...]:
    """Each comes after those it needs. Raises ValueError if some need each other."""
    made = {f"{name}_{strategy}": name for name in expressions for strategy in Strategy}
    made |= {name: name for name in expressions}
    needed = {
        name: [made[each.name] for each in _others(one) if each.name in made] for name, one in expressions.items()
    }
    try:
        return tuple(TopologicalSorter(needed).static_order())
    except CycleError as error:
        circle = " needs ".join(reversed(error.args[1]))
        raise ValueError(
            f'{circle}: an expression cannot need itself; for a tag of its name, write tag("...")'
        ) from error


def check_names(expressions: Mapping[str, Expression]) -> None:
    """Raise ValueError if a name is taken, or if an expression needs what is measured after it."""
    for name, one in expressions.items():
        if not name.isprintable():
            raise ValueError(f"{name!r} cannot be the name of a metric")
        if name in FACTS:
            raise ValueError(f"{name!r} cannot be the name of an expression: it is a fact that expressions use")
        if is_generated(name) and not may_be_own(name):
            raise ValueError(f"{name!r} cannot be the name of an expression: it is that of a metric of every run")
        for reference in _others(one):
            of_goodput = is_generated(reference.name) and not may_be_own(reference.name)
            of_a_tag = without_strategy(reference.name) != reference.name  # `step_time_p90`, perhaps
            if of_goodput and not of_a_tag and reference.name not in expressions:
                raise ValueError(
                    f"{name}: {reference.name} is measured after expressions are computed, so they cannot use it; "
                    f'for a tag of this name, write tag("{reference.name}")'
                )


def check_params(expressions: Mapping[str, Expression], params: Collection[str]) -> None:
    for name, one in expressions.items():
        for each in formula(one.expression).references:
            if each.of is Of.PARAM and each.name not in params:
                near = did_you_mean(each.name, params)
                raise ValueError(f'{name}: param("{each.name}") is not declared in `params`{near}')


def _others(expression: Expression) -> list[Reference]:
    return [each for each in formula(expression.expression).references if each.of in {Of.ANY, Of.METRIC}]


TOTAL_WALL_TIME = "total_wall_time"
TIME_TO_ACCURACY = "time_to_accuracy"
STEP_TIME = "step_time"
MEMORY = ("vm_memory_usage_bytes", "gpu_memory_usage_bytes")
SPELLINGS = ("metric_to_aggregation_strategy", "metric_to_aggregation_strategies")


OfRun = Literal["duration", "attempts", "queue_time"]
"""A number about the run itself."""


def _by_name(literals: Any) -> Any:
    """Accept a list of literals, in which each keeps its own name."""
    if isinstance(literals, list | tuple):
        twice = {str(one) for one in literals if literals.count(one) > 1}
        if twice:
            raise ValueError(f"contains {', '.join(sorted(twice))} twice")
        return {str(one): one for one in literals}
    return literals


MetricName = Annotated[str, Field(min_length=1), checked(printable_name)]
Literals = Annotated[dict[MetricName, OfRun], BeforeValidator(_by_name)]


class JsonLines(Source):
    """Files of lines `{"metrics": {...}, "dimensions": {...}}` or `{"step": 1, "loss": 2.5}`."""

    files: tuple[Pattern, ...] = ("*.jsonl",)
    """Patterns for paths below the run folder."""
    lines: Literal["sub_runs", "points"] = "sub_runs"
    """`sub_runs`: a line is a result. `points`: lines with equal dimensions are a series."""
    named_by: tuple[str, ...] = ()
    """The dimensions that name sub-runs. Default: those in which lines differ."""
    step: str = ""
    """The field with the step; `line` numbers the lines. Default: `step`, `_step`, `global_step`, ..."""
    time: str = ""
    """The field with the time. Default: `timestamp`, `_timestamp`, `wall_time`, `time`, ..."""
    nulls: Literal["not_finite", "absent"] = "not_finite"
    """Null in a flat line: `not_finite` (a failed measurement), or `absent`."""
    numbers_in_text: bool = False
    """Whether text such as `"1.453e+04"` is a number."""
    log_records: bool = False
    """Whether lines with level and message are read."""
    file_name_prefix: bool = False
    """Whether tags begin with the file's name: `eval/loss`."""


class Csv(Source):
    """Tables with a row of points for each step."""

    files: tuple[Pattern, ...] = ("*.csv", "*.tsv")
    """Patterns for paths below the run folder."""
    step: str = ""
    """The column with the step, or `line`. Default: as in `json_lines`."""
    time: str = ""
    """The column with the time. Default: as in `json_lines`."""
    file_name_prefix: bool = False
    """Whether the file's name becomes part of the tags: `metrics/loss`."""


DocumentFormat = Literal["json", "json_lines", "yaml", "toml", "csv", "xml"]
INDEX = "index"
"""The configured step of values that have none: their number."""


class DocumentMetric(Strict):
    """Where a document has a metric, with what is known about it."""

    path: Annotated[str, checked(parts_of)]
    """The path to its values, as `$.runs[*].p99`."""
    unit: Unit | None = None
    """The unit of its values."""
    better: Better | None = None
    """Whether `higher` or `lower` values are better, or `neither`."""


PathName = Annotated[str, checked(printable_name), checked(check_name)]


class Document(Strict):
    """Files of any program: paths that lead to their numbers."""

    files: tuple[Pattern, ...] = Field(min_length=1)
    """Patterns for paths below the run folder."""
    metrics: dict[PathName, Annotated[str, checked(parts_of)] | DocumentMetric] = Field(default_factory=dict)
    """By name: the path to its values, or `path`, `unit` and `better`. `{field}` is a field beside the value. Default:
    all numbers outside of lists."""
    step: str = ""
    """The field beside a value with its step, or `index`. Default: values are results."""
    time: str = ""
    """The field beside a value with its time."""
    unit: Unit = ""
    """The unit; `{field}` is a field beside the value."""
    better: Better | None = None
    """`higher`, `lower` or `neither`."""
    format: DocumentFormat | None = None
    """`json`, `json_lines`, `yaml`, `toml`, `csv` or `xml`. Default: by name and content."""
    prefix: Prefix = ""
    """What the name of each metric begins with."""

    @property
    def paths(self) -> dict[str, DocumentMetric]:
        given = self.metrics or {"": "$"}
        return {name: DocumentMetric(path=one) if isinstance(one, str) else one for name, one in given.items()}


class PerfZero(Source):
    """The file `perfzero_summary.json` of a PerfZero benchmark."""

    process_info: Literal["plain", "prefixed"] = "plain"
    """How process metrics are named: `plain`, as `max_rss`, or `prefixed`, as `process_info/max_rss`."""


class Devices(Source):
    """Text of the DCGM exporter or of `tpu-info` that a program in the pod wrote while the job ran."""

    files: tuple[Pattern, ...] = ("*.prom", "*tpu-info*.txt")
    """Patterns for the paths of the files below the run folder."""


CurveField = Annotated[
    str, Field(max_length=1000), checked(lambda field: parts_of(field) if field.startswith("$") else None)
]


class CurveY(Strict):
    """One y of curves."""

    field: CurveField = ""
    """The field or column: its name, `latency.p99` within another, or a path `$...`. Default: the curve's name."""
    unit: Unit | None = None
    """The unit of its values. Default: what the name tells, as `ttft_ms` does."""
    better: Better | None = None
    """Whether `higher` or `lower` values are better, or `neither`. Default: what the name tells."""


class OwnCurves(Strict):
    """Curves over a load, a size or another setting in files of one's own."""

    files: tuple[Pattern, ...] = Field(min_length=1)
    """CSV, JSON, JSON lines, or a JSON file for each point."""
    x: Annotated[CurveField, Field(min_length=1)]
    """The field that was varied; where no row has it, the word before a number in file names."""
    x_unit: Unit = ""
    """The unit of x."""
    y: dict[MetricName, CurveY] = Field(min_length=1, max_length=100)
    """The curves: `field` (a name, `latency.p99` within another, or a path `$...`), `unit` and `better`; `{}` if the
    name tells them."""
    series: tuple[str, ...] = ()
    """Fields that tell curves apart; their values precede the name. Default: file names, if they do."""
    rows: CurveField = ""
    """In a JSON document, the points."""
    samples: CurveField = ""
    """The field with the number of measurements in a point."""
    succeeded: CurveField = ""
    """The field that is 0 or false at a failed point."""
    achieved: CurveField = ""
    """The field with the achieved rate, if x is the requested one."""


class Objective(Strict):
    """What a curve has to keep."""

    at_most: float | None = None
    """The greatest value, in the unit of the curve."""
    at_least: float | None = None
    """The smallest value, in the unit of the curve."""

    @model_validator(mode="after")
    def has_a_limit(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("give at_most or at_least")
        return self

    def distance(self, y: float) -> float:
        """How far a value is from its limit: 0 or less if it is kept."""
        return y - self.at_most if self.at_most is not None else (self.at_least or 0.0) - y


class ValueOfCurve(Strict):
    """The value of a curve at the smallest x where another reaches a value."""

    of: Annotated[str, Field(min_length=1)]
    """The curve whose value it is."""
    where: Annotated[str, Field(min_length=1)]
    """The other curve."""
    reaches: float
    """Its value, interpolated between points."""


class AreaOfCurve(Strict):
    """A curve beside a reference."""

    of: Annotated[str, Field(min_length=1)]
    """The curve."""
    reference: Annotated[tuple[tuple[float, float], ...], Field(min_length=1, max_length=1000)]
    """The points of the reference, each `[x, y]`. Those outside the curve do not count."""


class FigureOfCurves(OneOf):
    """A number made from curves."""

    noun: ClassVar[str] = "figure"

    capacity: Annotated[dict[str, Objective], Field(min_length=1, max_length=20)] | None = None
    """The greatest x up to which all objectives (`at_most`, `at_least`) are kept."""
    peak: Annotated[str, Field(min_length=1)] | None = None
    """The best value."""
    peak_at: Annotated[str, Field(min_length=1)] | None = None
    """The x of the best value."""
    half_peak_at: Annotated[str, Field(min_length=1)] | None = None
    """The smallest x with half of the best value."""
    knee_at: Annotated[str, Field(min_length=1)] | None = None
    """The x of the point farthest from the line between the ends of the curve."""
    latency: Annotated[str, Field(min_length=1)] | None = None
    """The time of a message of size 0, if time is latency + size / bandwidth."""
    bandwidth: Annotated[str, Field(min_length=1)] | None = None
    """The bandwidth of that model."""
    value: ValueOfCurve | None = None
    """The value of a curve where another `reaches` a value."""
    area: AreaOfCurve | None = None
    """The mean percentage of a reference, by logarithms. Points outside the curve do not count."""


class Sources(Strict):
    """The files and services that metrics are read from. A source without data adds nothing."""

    tensorboard: bool = True
    """Event files."""
    streams: bool = True
    """`telemetry.jsonl`."""
    json_lines: JsonLines = Field(default_factory=JsonLines)
    """JSON lines."""
    csv: Csv = Field(default_factory=Csv)
    """Tables separated by commas or tabs."""
    documents: tuple[Document, ...] = ()
    """Any document, by paths."""
    perfzero: PerfZero = Field(default_factory=PerfZero)
    """PerfZero summaries."""
    devices: Devices = Field(default_factory=Devices)
    """GPUs and TPUs."""
    formats: Formats = Field(default_factory=Formats)
    """Files of other programs."""
    logs: Logs = Field(default_factory=Logs)
    """What a program prints."""
    profile: bool = True
    """`*.xplane.pb`."""
    curves: dict[str, OwnCurves] = Field(default_factory=dict)
    """Curves, by any name."""
    memory: bool = True
    """The peak memory usage."""
    literals: Literals = Field(default_factory=dict)
    """`duration`, `attempts` and `queue_time`: a list, or a mapping of names."""


class TimeToAccuracy(Strict):
    """The time from the start of the run until a tag first reaches a value."""

    accuracy_tag: str
    """The tag to watch."""
    accuracy_threshold: float
    """The value that it must reach or exceed."""


class MetricCollectionConfig(Strict):
    """Which values of a run become metrics."""

    default_aggregation_strategies: tuple[Strategy, ...] = Field((Strategy.FINAL,), min_length=1)
    """The strategies: each makes a metric `<tag>_<strategy>`."""
    metric_to_aggregation_strategy: dict[NamePattern, tuple[Strategy, ...] | TagAggregation] = Field(
        default_factory=dict, validation_alias=AliasChoices(*SPELLINGS)
    )
    """Strategies of some tags, also spelled `metric_to_aggregation_strategies`."""
    steps: Steps = Field(default_factory=Steps)
    """The steps whose points count."""
    warmup: Warmup = "none"
    """`auto` finds the warm-up of each tag, and leaves it out."""
    tags_to_ignore: tuple[NamePattern, ...] = ()
    """Tags that are left out: exact, globs, or `re:` and a regular expression."""
    include_tags: tuple[NamePattern, ...] = ()
    """Only these tags are collected."""
    time_to_accuracy: TimeToAccuracy | None = None
    """Adds the seconds until a tag first reaches or exceeds a value."""
    write_to_bigquery: bool = True
    """Whether runs are written to the warehouse."""
    use_run_name_prefix: bool = False
    """Whether a tag begins with its sub-folder: `train/loss`."""
    restarts: Literal["keep", "supersede"] = "keep"
    """Points that a restarted workload wrote again: `keep` or `supersede`."""
    metrics: dict[NamePattern, MetricFacts] = Field(default_factory=dict)
    """Facts about metrics whose names do not tell."""
    expressions: Expressions = Field(default_factory=dict)
    """Metrics computed from others, by name."""
    figures: dict[MetricName, FigureOfCurves] = Field(default_factory=dict, max_length=100)
    """Metrics made from curves, by name."""
    sources: Sources = Field(default_factory=Sources)
    """What metrics are read from."""

    @property
    def facts(self) -> dict[str, MetricFacts]:
        computed = self.computed.items()
        return {name: MetricFacts(unit=one.unit, better=one.better) for name, one in computed} | self.metrics

    @property
    def computed(self) -> dict[str, Expression]:
        return _as_mappings(self.expressions)

    def meant_by(self, metric: str, others: Collection[str] = ()) -> str | None:
        """A metric of the config, or another that is known, whose name is mistaken in this one; None if none is."""
        known = {*_predictable_names(vars(self), self.sources), *others}
        if metric in known or is_generated(metric):
            return None
        names = sorted(name for name in known if not is_pattern(name))
        of_tag = (name for name in names if without_strategy(name) in {metric, without_strategy(metric)})
        return next(of_tag, None) or next(iter(get_close_matches(metric, names, n=1, cutoff=0.9)), None)

    def strategies_of(self, tag: str) -> tuple[Strategy, ...]:
        key = best_match(self.metric_to_aggregation_strategy, tag)
        chosen = () if key is None else self.metric_to_aggregation_strategy[key]
        given = chosen.strategies if isinstance(chosen, TagAggregation) else chosen
        return given or self.default_aggregation_strategies

    @property
    def own_names(self) -> frozenset[str]:
        made = (f"{STEP_TIME}_{one}" for one in self.strategies_of(STEP_TIME))
        return frozenset(filter(is_generated, (*made, *self.sources.literals, *self.expressions)))

    @model_validator(mode="before")
    @classmethod
    def one_spelling(cls, content: Any) -> Any:
        if isinstance(content, dict) and all(spelling in content for spelling in SPELLINGS):
            raise ValueError(f"{SPELLINGS[0]} and {SPELLINGS[1]} are two spellings of the same key; keep one")
        return content

    @field_validator("metric_to_aggregation_strategy", mode="after")
    @classmethod
    def last_n_is_used(cls, chosen: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        default = info.data.get("default_aggregation_strategies", (Strategy.LAST_N_MEAN,))
        for tag, one in chosen.items():
            unused = "last_n" in getattr(one, "model_fields_set", ()) and not one.strategies
            if unused and Strategy.LAST_N_MEAN not in default:
                raise ValueError(f"{tag}: last_n is used by last_n_mean only, and {tag} has {', '.join(default)}")
        return chosen

    @field_validator("expressions", mode="after")
    @classmethod
    def expressions_can_be_computed(cls, expressions: Expressions) -> Expressions:
        check_names(_as_mappings(expressions))
        in_order(_as_mappings(expressions))
        return expressions

    @field_validator("sources", mode="after")
    @classmethod
    def one_source_for_each_name(cls, sources: Sources, info: ValidationInfo) -> Sources:
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
    """The metrics whose names are known before a run, with their origin. `config` lacks its invalid fields."""
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
