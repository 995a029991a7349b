"""Whether a run is well: baselines, bounds, verdicts."""
