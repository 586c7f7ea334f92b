/** A third of the end-to-end tests of Kubernetes for Services against a cluster of nodes in iptables mode, and those that differ most by mode. */
import { testCluster } from './running.ts';

const CHOSEN =
  /affinity|terminat|TrafficPolicy|hairpin|NodePort service|preserve|source ranges|rejected|iptables rules|restarting|invalid/;

testCluster('iptables', (title) => CHOSEN.test(title));
