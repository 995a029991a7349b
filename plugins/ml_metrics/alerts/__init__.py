"""From a verdict to a person: incidents, messages, the outbox, channels, digests, charts."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.alerts.acts import ANSWERS, Act, Question
    from ml_metrics.alerts.answer import NOBODY, send_answer
    from ml_metrics.alerts.causes import NODE_DAYS, NODE_METRICS, NodesFound, fault_sentences, nodes_found
    from ml_metrics.alerts.channels.channel import Unusable
    from ml_metrics.alerts.channels.mail import Outbox
    from ml_metrics.alerts.channels.smtp import Smtp
    from ml_metrics.alerts.compose import SUBJECT_PREFIX
    from ml_metrics.alerts.cost_week import send_cost_of_week
    from ml_metrics.alerts.digest import send_due_digests
    from ml_metrics.alerts.heartbeat import WEEK, send_heartbeats
    from ml_metrics.alerts.import_errors import forget_import_errors, note_import_error, read_import_errors
    from ml_metrics.alerts.job import MOST_COUNTED, folder_of, last_error, why
    from ml_metrics.alerts.message import page_of_incident, page_of_run, page_of_test
    from ml_metrics.alerts.metric import failed_runs
    from ml_metrics.alerts.night import SECTIONS, Night, night_of
    from ml_metrics.alerts.no_regression import close_as_no_regression
    from ml_metrics.alerts.outbox.post import Posted, hurry, post
    from ml_metrics.alerts.outbox.sender import COMMAND_LINE, send_if_no_sender_runs, send_pending
    from ml_metrics.alerts.problems import changed_metric_of, level_of, levels_of, metric_of, short_name
    from ml_metrics.alerts.render import escaped, one_line, templates_of
    from ml_metrics.alerts.runs import RunNotifier
    from ml_metrics.alerts.settings import (
        DEFAULT_LOG_LINES,
        DEFAULT_MAILS_PER_HOUR,
        DEFAULT_MASS_FAILURE_PERCENT,
        DEFAULT_MASS_FAILURE_TESTS,
        MAX_LOG_LINES,
        MailSettings,
    )
    from ml_metrics.alerts.trials import start_in
    from ml_metrics.alerts.watching import Outcome, Surroundings, tests_now, watch

__getattr__ = on_first_use(__name__)
