"""Numbers out of what a workload wrote: a file for each format, event files, goodput, efficiency, logs."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.measure.cloud import exported, goodput_log
    from ml_metrics.measure.collect import Explained, collect_run, explain_file
    from ml_metrics.measure.collected import STEP_TIMES, Collected, Environment, generated, is_wanted
    from ml_metrics.measure.curves import CURVE
    from ml_metrics.measure.logs import (
        SAVED_LINES,
        ContainerLog,
        Excerpt,
        FirstError,
        Role,
        Secrets,
        cut,
        error_of,
        failing_log,
        is_sensitive,
        last_lines,
        lines_of,
        listed_logs,
        read_logs,
        shown,
        stamp_and_line,
        write_log,
        write_logs,
    )
    from ml_metrics.measure.readers.log_profiles import LOG_PROFILES
    from ml_metrics.measure.readers.printed_steps import printed_steps, read_printed_steps
    from ml_metrics.measure.source import COMPUTED
    from ml_metrics.measure.step_stream import StepStream

__getattr__ = on_first_use(__name__)
