"""What Airflow calls so that people hear of a run: callbacks of the gate, of a missed deadline, and two small DAGs.

The callbacks run in the gate's own process, or, where that was killed, in the DAG processor; and they may run twice. So
they know only what the run folder and the warehouse say, and what they did before. Nothing heavy is imported before
there is something to tell: every DAG file imports this.
"""

from ml_metrics.notify.callbacks import (
    send_digest,
    send_heartbeat,
    tell_of_lost_gate,
    tell_overdue,
    tell_people,
)

__all__ = ["send_digest", "send_heartbeat", "tell_of_lost_gate", "tell_overdue", "tell_people"]
