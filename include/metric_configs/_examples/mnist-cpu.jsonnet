local base = import 'templates/base.libsonnet';

local mnist = base.BaseTest {
  frameworkPrefix: 'tf',
  modelName: 'mnist',
  mode: 'jsonnet',

  timeout: 3600,  // 1 hour, in seconds
  schedule: '0 */1 * * *',

  image: 'gcr.io/your-project/tensorflow',  // Change 'your-project' to your project id
  imageTag: 'r2.2',

  accelerator: base.cpu,

  command: [
    'python3',
    'official/vision/image_classification/mnist_main.py',
    '--data_dir=gs://your-bucket/mnist',
    '--num_gpus=0',
    '--train_epochs=1',
    '--model_dir=$(OUTPUT_BUCKET)/mnist/$(JOB_NAME)',
  ],

  metricCollectionConfig+: {
    metric_to_aggregation_strategy: {
      epoch_sparse_categorical_accuracy: ['final'],
    },
  },
  regressionTestConfig+: {
    metric_success_conditions+: {
      epoch_sparse_categorical_accuracy_final: {
        comparison: 'greater',
        success_threshold: { fixed_value: 0.96 },
      },
    },
  },
};

mnist.cronJob
