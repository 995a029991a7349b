-- Run once, by PostgreSQL's own image, when its volume is new: the rows of tests have a database of their own.
CREATE DATABASE ml_metrics;
