"""Where a job's time went."""
