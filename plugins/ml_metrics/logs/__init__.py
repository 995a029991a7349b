"""The last lines of the logs of a workload's containers: cleaned, without known secrets, in the run folder."""
