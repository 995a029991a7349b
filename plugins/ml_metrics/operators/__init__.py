"""The six tasks of a test, each thin: it calls one function of a lower floor."""
