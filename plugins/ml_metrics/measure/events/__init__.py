"""TensorBoard event files, read completely and in columns."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.measure.events.reader import Events, is_event_file, read_events

__getattr__ = on_first_use(__name__)
