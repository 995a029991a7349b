"""Messages about runs: their text, when they are sent, and delivery through every channel."""
