"""The room or part `judge/compare`."""
