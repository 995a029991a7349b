"""Jobs of batch/v1."""
