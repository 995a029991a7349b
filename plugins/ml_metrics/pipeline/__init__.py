"""The room or part `pipeline`."""
