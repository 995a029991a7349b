"""The room or part `ui`."""
