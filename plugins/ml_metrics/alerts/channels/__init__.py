"""Where messages go: one module for each kind of channel."""
