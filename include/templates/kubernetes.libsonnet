// The Kubernetes objects of a test, like those of `ml-metrics render`.
local withoutEmpty = import 'without_empty.libsonnet';

{
  // The annotation with the test from which an object was made.
  local annotation = 'ml-metrics/test-file',
  local sevenDays = 7 * 24 * 3600,

  local seconds(duration) =
    if std.isNumber(duration) then std.floor(duration)
    else
      local units = { d: 86400, h: 3600, m: 60, s: 1 };
      local step(state, letter) =
        if std.objectHas(units, letter)
        then { total: state.total + std.parseInt(state.digits) * units[letter], digits: '' }
        else state { digits+: letter };
      std.foldl(step, std.stringChars(std.strReplace(duration, ' ', '')), { total: 0, digits: '' }).total,

  local labels(test) = {
    'ml-metrics/test': test.testName,
    'ml-metrics/accelerator': test.accelerator.name,
    'ml-metrics/framework': test.frameworkPrefix,
    'ml-metrics/model': test.modelName,
    'ml-metrics/mode': test.mode,
    'ml-metrics/owner': std.get(test.settings, 'owner', 'unowned'),
  } + test.labels,

  local fromField(name, path) = { name: name, valueFrom: { fieldRef: { fieldPath: path } } },

  local env(test) =
    local folder = '$(OUTPUT_BUCKET)/%s/$(JOB_NAME)' % test.testName;
    local jobName = "metadata.labels['job-name']";
    local several = test.accelerator.hosts > 1;
    [
      fromField('POD_NAME', 'metadata.name'),
      fromField('POD_UID', 'metadata.uid'),
      fromField('POD_NAMESPACE', 'metadata.namespace'),
      fromField('JOB_NAME', jobName),
    ] + (if several then [fromField('KUBERNETES_JOB', jobName)] else []) + [
      { name: 'ML_METRICS_RUN_DIR', value: folder },
      { name: 'MODEL_DIR', value: folder },
    ] + (
      // how hosts find the first one
      if several then [
        { name: 'ML_METRICS_HOSTS', value: std.toString(test.accelerator.hosts) },
        { name: 'ML_METRICS_FIRST_HOST', value: '$(KUBERNETES_JOB)-0.' + test.testName },
      ] else []
    ) + [{ name: name, value: std.toString(test.envMap[name]) } for name in std.objectFields(test.envMap)],

  local resources(test) =
    local text(value) = if value == null then null else std.toString(value);
    local requests = withoutEmpty({ cpu: text(test.cpu), memory: text(test.memory) }) + test.accelerator.resources;
    if requests == {} then {} else { requests: requests, limits: requests },

  local volumes(test) =
    local sources(volume) = withoutEmpty({
      persistentVolumeClaim: if std.objectHas(volume, 'claim') then { claimName: volume.claim },
      configMap: if std.objectHas(volume, 'config_map') then { name: volume.config_map },
      secret: if std.objectHas(volume, 'secret') then { secretName: volume.secret },
      hostPath: if std.objectHas(volume, 'host_path') then { path: volume.host_path },
      emptyDir:
        if std.objectHas(volume, 'memory') then { medium: 'Memory', sizeLimit: volume.memory }
        else if std.objectHas(volume, 'scratch') then { sizeLimit: volume.scratch },
    });
    local paths = std.objectFields(test.volumeMap);
    [
      {
        name: 'volume-%d' % number,
        path: paths[number],
        readOnly: std.get(test.volumeMap[paths[number]], 'read_only', false),
        source: sources(test.volumeMap[paths[number]]),
      }
      for number in std.range(0, std.length(paths) - 1)
    ],

  local podTemplate(test) = {
    metadata: { labels: labels(test) },
    spec: withoutEmpty({
      restartPolicy: 'Never',
      activeDeadlineSeconds: seconds(test.timeout),
      subdomain: if test.accelerator.hosts > 1 then test.testName,
      containers: [withoutEmpty({
        name: 'base',
        image: test.image + ':' + test.imageTag,
        command: [std.toString(argument) for argument in test.command],
        envFrom: [{ configMapRef: { name: name, optional: true } } for name in test.configMaps],
        env: env(test),
        resources: resources(test),
        volumeMounts: [
          { name: volume.name, mountPath: volume.path } + (if volume.readOnly then { readOnly: true } else {})
          for volume in volumes(test)
        ],
      })],
      nodeSelector: test.accelerator.nodeSelector + test.nodeSelector,
      tolerations: test.accelerator.tolerations,
      volumes: [{ name: volume.name } + volume.source for volume in volumes(test)],
    }),
  },

  local jobSpec(test) = {
    backoffLimit: 0,
    ttlSecondsAfterFinished: sevenDays,
    template: podTemplate(test),
  } + (
    if test.accelerator.hosts > 1
    then { completions: test.accelerator.hosts, parallelism: test.accelerator.hosts, completionMode: 'Indexed' }
    else {}
  ),

  local metadata(test) = {
    name: test.testName,
    labels: labels(test),
    annotations: { [annotation]: std.toString(test.test) },
  },

  job(test): {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: metadata(test),
    spec: jobSpec(test),
  },

  cronJob(test): {
    assert test.schedule != null : 'Must specify `schedule`',
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: metadata(test),
    spec: {
      schedule: test.schedule,
      concurrencyPolicy: 'Forbid',
      successfulJobsHistoryLimit: 1,
      jobTemplate: { metadata: { labels: labels(test) }, spec: jobSpec(test) },
    },
  },
}
