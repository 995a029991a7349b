"""Lines that programs printed: the profile that knows each, its step, and its values."""

# ruff: noqa: E501  (lines of programs)
# fmt: off
INF = float("inf")
EXAMPLES: list[tuple[str, str, int | None, dict[str, float]]] = [
    ("maxtext", "I0822 10:00:00.123456 1234 metric_logger.py:200] completed step: 12, seconds: 2.167, TFLOP/s/device: 36.722, Tokens/s/device: 1,890.321, total_weights: 4096, loss: 2.191",
     12, {"step_time": 2.167, "tflops_per_device": 36.722, "tokens_per_second_per_device": 1890.321, "total_weights": 4096, "loss": 2.191}),
    ("megatron", " [2026-08-22 10:00:00.000000] iteration       10/     100 | consumed samples:          160 | elapsed time per iteration (ms): 812.3 | throughput per GPU (TFLOP/s/GPU): 412.0 | learning rate: 1.0E-04 | global batch size:    16 | lm loss: 1.05E+01 | loss scale: 1.0 | grad norm: 2.1 | number of skipped iterations:   0 | number of nan iterations:   0 |",
     10, {"step_time": 0.8123, "tflops_per_device": 412.0, "loss": 10.5, "grad_norm": 2.1, "learning_rate": 0.0001, "skipped_iterations": 0, "nan_iterations": 0, "consumed_samples": 160}),
    ("megatron", "[rank-7/8][DEBUG] [utils.py:425] : iteration        1/      10 | consumed samples:        8 | elapsed time per iteration (ms): 432.6/441.0 | lm loss: 9.2E+00 | number of nan iterations:   0 | hip mem usage/free/total/usage_ratio: 134.62GB/153.37GB/287.98GB/46.74%",
     1, {"consumed_samples": 8, "step_time": 0.43260000000000004, "loss": 9.2, "nan_iterations": 0}),
    ("torchtitan", "[titan] 2026-01-01 10:00:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.1309  \x1b[38;2;180;60;0mgrad_norm:  inf  \x1b[36mmemory: 10.25GiB(12.9%)  \x1b[34mtps: 7,033  \x1b[35mtflops: 1,017.62  \x1b[36mmfu: N/A\x1b[0m",
     1, {"loss": 8.1309, "grad_norm": INF, "memory_gib": 10.25, "tokens_per_second_per_device": 7033, "tflops_per_device": 1017.62}),
    ("nemo", "Training epoch 0, iteration 9/99 | lr: 2.699e-05 | global_batch_size: 512 | global_step: 9 | reduced_train_loss: 11.03 | train_step_timing in s: 12.92 | consumed_samples: 5120",
     9, {"learning_rate": 2.699e-05, "loss": 11.03, "step_time": 12.92, "consumed_samples": 5120}),
    ("nemo", "Epoch 0: :   1%|          | 100/10000 [02:00<3:20:00, v_num=0, reduced_train_loss=3.1e+4, global_step=99.00, consumed_samples=800.0, train_step_timing in s=1.200]",
     99, {"loss": 31000.0, "step_time": 1.2, "consumed_samples": 800}),
    ("nemo", "Epoch 0:   3%|3         | 34103/1100000 [5:28:58<171:22:21,  1.73it/s, loss=2.52, v_num=, reduced_train_loss=2.510, global_step=3.1e+4, consumed_samples=2.54e+8, val_loss=2.510]",
     31000, {"loss": 2.51, "consumed_samples": 254000000.0, "val_loss": 2.51}),
    ("keras", "1875/1875 ━━━━━━━━━━━━━━━━━━━━ 3s 1ms/step - accuracy: 0.9278 - loss: 0.2407",
     0, {"accuracy": 0.9278, "loss": 0.2407, "step_time": 0.001}),
    ("keras", "60/60 - 9s - 147ms/step - loss: 2.4685 - val_loss: 0.2172",
     0, {"loss": 2.4685, "val_loss": 0.2172, "step_time_with_validation": 0.147}),
    ("hugging-face", "{'loss': 2.3, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.02}",
     None, {"loss": 2.3, "grad_norm": 1.2, "learning_rate": 5e-05, "epoch": 0.02}),
    ("hugging-face", "100%|##########| 3/3 [00:01<00:00]{'loss': '1.921', 'epoch': '1.453e+04'}",
     None, {"loss": 1.921, "epoch": 14530.0}),
    ("boosting", "[1]\ttrain's l2: 2.07761\tvalid's l1: 0.938996",
     1, {"train/l2": 2.07761, "valid/l1": 0.938996}),
    ("boosting", "[0]\ttrain-rmse:0.50\teval-rmse:0.61",
     0, {"train/rmse": 0.5, "eval/rmse": 0.61}),
]
