"""What a run costs, what it got for that, and which host or node held it up."""
