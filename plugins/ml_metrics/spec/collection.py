"""`metric_collection_config`: which numbers of a run become metrics, and how many points become one."""

from enum import StrEnum
from typing import Any

from pydantic import AliasChoices, Field, model_validator

from ml_metrics.spec.patterns import Pattern
from ml_metrics.spec.strict import Strict

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

    @model_validator(mode="before")
    @classmethod
    def one_spelling(cls, content: Any) -> Any:
        """Older documentation and older code spell one key differently; given twice, one would be ignored."""
        if isinstance(content, dict) and all(spelling in content for spelling in SPELLINGS):
            raise ValueError(f"{SPELLINGS[0]} and {SPELLINGS[1]} are two spellings of one key; keep one")
        return content
