"""The room or part `alerts/outbox`."""
