"""The room or part `measure/readers`."""
