"""Google Cloud: Logging and Monitoring for goodput and memory."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.measure.cloud.goodput import exported, goodput_log
    from ml_metrics.measure.cloud.logging import CloudLogger
    from ml_metrics.measure.cloud.memory import memory_reader, visible_at
    from ml_metrics.measure.cloud.monitoring import CloudMonitoring, GCPOptions

__getattr__ = on_first_use(__name__)
