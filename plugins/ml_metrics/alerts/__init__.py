"""Messages about runs: how they read, when they are sent, and delivery through every channel."""
