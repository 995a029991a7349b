"""The test of `include/metric_configs/mnist-cpu.yaml` written in Python, as an Airflow DAG."""

from datetime import timedelta

from ml_metrics import TestDefinition, accelerator_test

dag = accelerator_test(
    TestDefinition(
        name="py-mnist-example-cpu",
        framework="tf",
        model="mnist",
        mode="example",
        owner="vision-team",
        image="gcr.io/your-project/digits:latest",
        command=("python3", "include/workloads/digits.py", "--train_epochs={{ params.train_epochs }}"),
        params={"train_epochs": 10},
        timeout=timedelta(minutes=10),
        metric_collection_config={
            "metric_to_aggregation_strategy": {"epoch_sparse_categorical_accuracy": ["final", "max"]}
        },
        regression_test_config={
            "required_metrics": ["loss_final"],
            "metric_success_conditions": {
                "epoch_sparse_categorical_accuracy_final": {
                    "comparison": "greater",
                    "success_threshold": {"fixed_value": 0.96},
                },
            },
        },
    )
)
