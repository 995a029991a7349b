"""The tasks of a test as Airflow operators: the workload, the five tasks that follow it, and three optional ones.

`confirm_run`, `search_cause` and `ask_for_decision` are in a DAG only if its test file has `confirm` (by a rerun) or
`rerun`, `on_regression`, or `decide`.
"""
