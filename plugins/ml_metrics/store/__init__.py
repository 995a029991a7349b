"""The room or part `store`."""
