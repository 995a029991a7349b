local base = import 'templates/base.libsonnet';

(base.BaseTest {
  frameworkPrefix: 'tf',
  modelName: 'mnist',
  mode: 'func',
  accelerator: base.cpu,
  image: 'gcr.io/my-project/mnist',
  timeout: 3600,
}).test
