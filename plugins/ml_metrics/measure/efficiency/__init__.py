"""The room or part `measure/efficiency`."""
