/** A pod that comes to itself by another node, in IPVS mode. */
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { describeRemoteHairpin } from '../netns/remote-hairpin-suite.ts';

describeRemoteHairpin({
  mode: 'ipvs',
  flags: ['--mode=ipvs'],
  createNode: (lab) => ManifestNode.create(lab),
  patience: 300_000,
});
