"""The tasks of a test, each calling one function of a lower floor."""
