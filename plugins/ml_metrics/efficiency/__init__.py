"""The cost of a run, how well it used its chips, and which host or node held it up."""
