local base = import 'templates/base.libsonnet';

(base.BaseTest {
  frameworkPrefix: 'tf',
  modelName: 'mnist',
  mode: 'func',
  accelerator: base.cpu,
  image: 'gcr.io/my-project/mnist',
  command: ['python3', 'train.py'],
  timeout: '1 hor',
  regressionTestConfig+: { metric_sucess_conditions: {} },
}).oneshotJob
