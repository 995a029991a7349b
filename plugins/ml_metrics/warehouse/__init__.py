"""The tables of runs and metrics, each run exactly once."""
