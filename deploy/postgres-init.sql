-- Run once, by PostgreSQL's own image, when its volume is new: a database and its role for Airflow's tables, and another for
-- the rows of tests. Neither role reaches the other's.
\getenv airflow AIRFLOW_DB_PASSWORD
\getenv ml_metrics ML_METRICS_DB_PASSWORD
CREATE ROLE airflow LOGIN PASSWORD :'airflow';
CREATE ROLE ml_metrics LOGIN PASSWORD :'ml_metrics';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE ml_metrics OWNER ml_metrics;
REVOKE CONNECT ON DATABASE airflow, ml_metrics FROM PUBLIC;
