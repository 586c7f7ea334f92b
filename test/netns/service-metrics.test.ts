/** The metrics of Services in iptables and nftables mode. */
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { describeServiceMetrics } from './service-metrics-suite.ts';

const createNode = ManifestNode.create;

describeServiceMetrics({ mode: 'iptables-nft', flags: ['--iptables-backend', 'nft'], createNode });
describeServiceMetrics({ mode: 'iptables-legacy', flags: ['--iptables-backend', 'legacy'], createNode });
describeServiceMetrics({ mode: 'nftables', flags: ['--mode=nftables'], createNode, losesLast: true });
