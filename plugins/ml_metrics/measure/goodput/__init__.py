"""How the time of a job was spent: goodput, badput by bucket, and the regularity of its steps."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.measure.goodput.build import measure
    from ml_metrics.measure.goodput.calculator import GoodputCalculator, NoGoodputError
    from ml_metrics.measure.goodput.host_step_times import MAX_COLUMNS, MAX_HOSTS
    from ml_metrics.measure.goodput.log import EntriesInMemory, LogSource
    from ml_metrics.measure.goodput.monitor import GoodputMonitor, Options, TensorBoard, Uploader
    from ml_metrics.measure.goodput.report import (
        CUSTOM_PREFIX,
        NO_LOG,
        PRODUCTIVE,
        BadputType,
        Bucket,
        GoodputReport,
        GoodputType,
        Part,
        is_log,
    )
    from ml_metrics.measure.goodput.steps import Stall
    from ml_metrics_telemetry.recorder import GoodputRecorder

__getattr__ = on_first_use(__name__)
