"""The room or part `measure/histories`."""
