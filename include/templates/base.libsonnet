// A test in Jsonnet: set the required fields of BaseTest, and end the file with one of
//
//   mnist.test        the test,
//   mnist.oneshotJob  the test as a Kubernetes Job without a schedule,
//   mnist.cronJob     the test as a Kubernetes CronJob.
//
// ml-metrics reads all of them; what is applied with kubectl is not collected.

local accelerators = import 'accelerators.libsonnet';
local kubernetes = import 'kubernetes.libsonnet';
local mixins = import 'mixins.libsonnet';
local withoutEmpty = import 'without_empty.libsonnet';

accelerators + mixins {
  BaseTest:: {
    local test = self,

    // Required.
    frameworkPrefix: error 'Must specify `frameworkPrefix`',
    modelName: error 'Must specify `modelName`',
    mode: error 'Must specify `mode`',
    accelerator: error 'Must specify `accelerator`',
    image: error 'Must specify `image`',
    command: error 'Must specify `command`',
    timeout: error 'Must specify `timeout`, in seconds or like `1h`',

    // null: the test runs only when it is triggered by hand.
    schedule: null,
    imageTag: 'latest',
    testName: std.join('-', [self.frameworkPrefix, self.modelName, self.mode, self.accelerator.name]),

    // The keys of `metric_collection_config` and `regression_test_config`.
    // `+:` merges with these defaults, `:` replaces them.
    metricCollectionConfig: {
      write_to_bigquery: true,
      default_aggregation_strategies: ['final'],
    },
    regressionTestConfig: {
      metric_success_conditions: {
        total_wall_time: { comparison: 'less' },  // not worse than its history
      },
    },

    // The pod.
    cpu: null,
    memory: null,
    envMap: {},
    configMaps: ['gcs-buckets'],
    volumeMap: {},
    nodeSelector: {},
    labels: {},

    // Other keys of a test file, by their names there: `owner`, `emails`, `tags`, `params`, `goodput`, ...
    settings: {},

    // Ignored: older templates set an image here that published the results of a run.
    publisherImage:: null,

    // The content of the test file. The assertion finds misspelt fields, which Jsonnet would ignore.
    test::
      local unknown = std.setDiff(std.set(std.objectFields(test)), std.set(std.objectFieldsAll($.BaseTest)));
      assert std.length(unknown) == 0
             : 'BaseTest has no field %s; make it hidden (`::`) if it is your own' % std.join(', ', unknown);
      withoutEmpty({
      framework: test.frameworkPrefix,
      model: test.modelName,
      mode: test.mode,
      accelerator: test.accelerator.name,
      name: test.testName,
      image: test.image + ':' + test.imageTag,
      command: test.command,
      timeout: test.timeout,
      schedule: test.schedule,
      env: test.envMap,
      config_maps: test.configMaps,
      volumes: test.volumeMap,
      node_selector: test.nodeSelector,
      labels: test.labels,
      resources: withoutEmpty({ cpu: test.cpu, memory: test.memory }),
    }) + {
      metric_collection_config: test.metricCollectionConfig,
      regression_test_config: test.regressionTestConfig,
    } + test.settings,

    oneshotJob:: kubernetes.job(test { schedule: null }),
    cronJob:: kubernetes.cronJob(test),
  },
}
