/** A pod that comes to itself by another node, in iptables and nftables mode. */
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { describeRemoteHairpin } from './remote-hairpin-suite.ts';

const createNode = ManifestNode.create;

describeRemoteHairpin({ mode: 'iptables-nft', flags: ['--mode=iptables', '--iptables-backend', 'nft'], createNode });
describeRemoteHairpin({
  mode: 'iptables-legacy',
  flags: ['--mode=iptables', '--iptables-backend', 'legacy'],
  createNode,
});
describeRemoteHairpin({ mode: 'nftables', flags: ['--mode=nftables'], createNode });
