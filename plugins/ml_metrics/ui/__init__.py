"""What people touch: the command line, the dashboard, the plugin that shows it in Airflow, functions for notebooks.

`cli/` has a file for each command, `dashboard/` one for each page.
"""
