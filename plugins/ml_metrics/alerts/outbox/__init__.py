"""Messages from the row that is written first to the channel that has confirmed it."""
