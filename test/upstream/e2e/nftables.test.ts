/** The end-to-end tests of Kubernetes for Services against a cluster of nodes in nftables mode. */
import { testCluster } from './running.ts';

testCluster('nftables');
