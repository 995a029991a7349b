"""What is judged and recorded of a run: the metrics of both measuring tasks, each name once."""

from pathlib import Path

from ml_metrics import steps
from ml_metrics.collect import Collected
from ml_metrics.model import Metric
from ml_metrics.run_folder import RunFolder


def test_a_name_that_both_tasks_give_counts_once_and_as_it_was_collected(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert steps._metrics(folder) == ()
    own, theirs, other = (
        Metric("goodput", 97, "goodput", "as_written"),
        Metric("goodput", 12, "goodput", "goodput"),
        Metric("badput_tpu_init", 3, "badput", "goodput"),
    )
    folder.write("metrics", Collected((own,)).document())
    folder.write("goodput", Collected((theirs, other)).document())
    assert steps._metrics(folder) == (own, other)
