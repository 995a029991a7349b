"""What everything uses: errors, the model of a run, units, text that is safe to show, time, limits, settings."""
