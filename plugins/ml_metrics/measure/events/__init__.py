"""TensorBoard event files, read completely and in columns."""

from ml_metrics.measure.events.reader import Events, Text, is_event_file, read_events

__all__ = ["Events", "Text", "is_event_file", "read_events"]
