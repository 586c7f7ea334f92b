/** The metrics of Services in IPVS mode, from the statistics of its virtual servers. */
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { describeServiceMetrics } from '../netns/service-metrics-suite.ts';

describeServiceMetrics({
  mode: 'ipvs',
  flags: ['--mode=ipvs'],
  createNode: (lab) => ManifestNode.create(lab),
  hasBytes: true,
  patience: 300_000,
});
