"""The search of a whole series for lasting changes of its level."""

from ml_metrics.judge.changepoint.search import Step, certain_places, change_points, edges_of

__all__ = ["Step", "certain_places", "change_points", "edges_of"]
