"""What to say when a run is not well, and where to send it."""
