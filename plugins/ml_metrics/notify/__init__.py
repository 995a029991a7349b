"""The callbacks that Airflow calls to send messages: at the end of a run, at a missed deadline, and on three schedules.

A callback runs in the process of the gate task or, if that was killed, in the DAG processor, and it may run twice. It
therefore relies on the run folder and the warehouse alone. Every DAG file imports this package, so heavy imports are
inside functions.
"""

from ml_metrics.notify.callbacks import (
    notify_overdue,
    notify_run,
    post_answer,
    post_run_message,
    send_digest,
    send_heartbeat,
    send_messages,
    watch_tests,
)
from ml_metrics.notify.questions import check_unanswered, incident_to_ask_about, question_about, store_answer

__all__ = [
    "check_unanswered",
    "incident_to_ask_about",
    "notify_overdue",
    "notify_run",
    "post_answer",
    "post_run_message",
    "question_about",
    "send_digest",
    "send_heartbeat",
    "send_messages",
    "store_answer",
    "watch_tests",
]
