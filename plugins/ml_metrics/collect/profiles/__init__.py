"""Log profiles: the lines of a program's own output that hold its metrics, one module for each program."""
