"""The room or part `core`."""
