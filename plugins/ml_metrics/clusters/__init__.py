"""Where workloads run."""
