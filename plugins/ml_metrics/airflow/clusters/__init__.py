"""Tests as Kubernetes objects, and the outcome of workloads from the state of those objects."""
