"""The buckets that a job's time is divided into."""

from __future__ import annotations

from enum import Enum, StrEnum


class Bucket(StrEnum):
    """A kind of unproductive time. The names are those of ml-goodput-measurement, in lower case."""

    TPU_INITIALIZATION = "tpu_initialization"
    TRAINING_PREP = "training_prep"
    PROGRAM_STARTUP = "program_startup"
    DATA_LOADING_SYNC = "data_loading_sync"
    DATA_LOADING_ASYNC = "data_loading_async"
    """Reported but not counted, as it happens while steps run."""
    UNPRODUCTIVE_CHECKPOINT_SAVE_TIME = "unproductive_checkpoint_save_time"
    UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME = "unproductive_checkpoint_restore_time"
    WASTED_PROGRESS_FROM_DISRUPTION = "wasted_progress_from_disruption"
    INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION = "infrastructure_recovery_from_disruption"
    CUSTOM_BADPUT_EVENTS = "custom_badput_events"
    """All custom events; reports also have the time of each type."""
    STALL = "stall"
    """Ours alone: what a step took beyond any usual step. Not in reports that are compatible with the older library."""
    OTHER = "other"
    ELASTIC_SLICE_DOWN = "elastic_slice_down"
    ELASTIC_SCALE_UP = "elastic_scale_up"
    ELASTIC_REINITIALIZATION = "elastic_reinitialization"


BadputType = Bucket
"""The older library's name for buckets."""


class GoodputType(Enum):
    """The only kind of productive time, under the older library's name."""

    TOTAL = 1


ELASTIC = (Bucket.ELASTIC_SLICE_DOWN, Bucket.ELASTIC_SCALE_UP, Bucket.ELASTIC_REINITIALIZATION)
PRODUCTIVE = "productive"
CUSTOM_PREFIX = "custom:"
"""The label of a custom event's time is this prefix and the event's type."""
