"""Which run folders are kept, what they take, and the removal of the others.

The folders alone decide, as they do for `load`: no row of the warehouse is needed but those of open incidents and
waiting messages. Only signed documents of this deployment are believed, so that a workload cannot have the folder of
another run removed.
"""

from ml_metrics.retention.ages import Ages
from ml_metrics.retention.choice import Choice, Needed, choose
from ml_metrics.retention.prune import prune
from ml_metrics.retention.remover import Remover
from ml_metrics.retention.rows import old_rows
from ml_metrics.retention.stored_runs import StoredRun, StoredRuns

__all__ = ["Ages", "Choice", "Needed", "Remover", "StoredRun", "StoredRuns", "choose", "old_rows", "prune"]
