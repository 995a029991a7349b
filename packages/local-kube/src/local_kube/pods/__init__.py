"""Pods: admission, scheduling, and the tasks that run them."""
