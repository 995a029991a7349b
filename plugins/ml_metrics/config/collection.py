"""`metric_collection_config`: which numbers of a run become metrics, and how many points become one."""

from enum import StrEnum
from typing import Any

from pydantic import AliasChoices, Field, ValidationInfo, field_validator, model_validator

from ml_metrics.config.patterns import Pattern
from ml_metrics.config.sources import Sources
from ml_metrics.config.strict import Strict

TOTAL_WALL_TIME = "total_wall_time"
TIME_TO_ACCURACY = "time_to_accuracy"
MEMORY = ("vm_memory_usage_bytes", "gpu_memory_usage_bytes")

SPELLINGS = ("metric_to_aggregation_strategy", "metric_to_aggregation_strategies")


class Strategy(StrEnum):
    """How the points of a tag become one number."""

    FINAL = "final"
    MAX = "max"
    MIN = "min"
    AVERAGE = "average"
    MEDIAN = "median"
    P50 = "p50"
    P90 = "p90"
    P99 = "p99"
    STD = "std"
    FIRST = "first"
    COUNT = "count"


class Restarts(StrEnum):
    """What happens to points that a restarted workload wrote again."""

    KEEP = "keep"
    SUPERSEDE = "supersede"


class TimeToAccuracy(Strict):
    """The time from the start of the run until a tag first reached a value."""

    accuracy_tag: str
    """The tag that is watched."""
    accuracy_threshold: float
    """The value that it has to reach, or exceed."""


class MetricCollectionConfig(Strict):
    """Which numbers of a run become metrics."""

    default_aggregation_strategies: tuple[Strategy, ...] = Field((Strategy.FINAL,), min_length=1)
    """How the points of a tag become one number, each a metric named `<tag>_<strategy>`."""
    metric_to_aggregation_strategy: dict[Pattern, tuple[Strategy, ...]] = Field(
        default_factory=dict,
        validation_alias=AliasChoices(*SPELLINGS),
    )
    """Other strategies for some tags; also spelt `metric_to_aggregation_strategies`."""
    tags_to_ignore: tuple[Pattern, ...] = ()
    """Tags that are not collected: exact, globs for the whole tag, or `re:` and a regular expression."""
    include_tags: tuple[Pattern, ...] = ()
    """Where given, only these tags are collected."""
    time_to_accuracy: TimeToAccuracy | None = None
    """Adds the metric `time_to_accuracy`: the seconds until a tag first reached a value."""
    write_to_bigquery: bool = True
    """Whether rows are written to the warehouse at all."""
    use_run_name_prefix: bool = False
    """Whether tags are told apart by the sub-folder in which they were written: `train/loss`."""
    restarts: Restarts = Restarts.KEEP
    """What happens to points that a restarted workload wrote again: `keep` or `supersede`."""
    sources: Sources = Field(default_factory=Sources)
    """What the metrics are read from."""

    @model_validator(mode="before")
    @classmethod
    def one_spelling(cls, content: Any) -> Any:
        """Older documentation and older code spell one key differently; given twice, one would be ignored."""
        if isinstance(content, dict) and all(spelling in content for spelling in SPELLINGS):
            raise ValueError(f"{SPELLINGS[0]} and {SPELLINGS[1]} are two spellings of one key; keep one")
        return content

    @field_validator("sources", mode="after")
    @classmethod
    def one_source_for_each_name(cls, sources: Sources, info: ValidationInfo) -> Sources:
        """Where two sources would give one metric, its history would mix them. Other names are known by a run only."""
        given = _names_that_are_known(info.data, sources)
        for name, literal in sources.literals.items():
            if name in given:
                raise ValueError(
                    f"literals: the metric {name!r} is {given[name]}, too; "
                    f"give the literal another name: {{run_{literal}: {literal}}}"
                )
        return sources


def _names_that_are_known(config: dict[str, Any], sources: Sources) -> dict[str, str]:
    """The metrics whose names can be known before a run, and what gives each. Fields that are wrong are not there."""
    strategies = dict(config.get("metric_to_aggregation_strategy", {}))
    names = {TOTAL_WALL_TIME: "computed for every run"}
    if sources.memory:
        names |= dict.fromkeys(MEMORY, "given by `memory`")
    if (watched := config.get("time_to_accuracy")) is not None:
        names[TIME_TO_ACCURACY] = "computed"
        strategies.setdefault(watched.accuracy_tag, config.get("default_aggregation_strategies", ()))
    return names | {
        f"{tag}_{strategy}": f"given by the tag {tag!r}" for tag, chosen in strategies.items() for strategy in chosen
    }
