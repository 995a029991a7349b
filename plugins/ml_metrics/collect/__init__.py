"""From what a run wrote to metrics: one file for each kind of source."""
