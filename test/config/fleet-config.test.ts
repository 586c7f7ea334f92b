import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fleetConfig } from '../../src/config/fleet-config.ts';
import { FLAGS } from '../messages/flags.ts';
import { problemIn } from '../messages/row.ts';

describe('configuration of the fleet', () => {
  it('has defaults for a pod of a cluster', () => {
    assert.deepEqual(fleetConfig({}), {
      kubeconfig: undefined,
      master: undefined,
      agents: { namespace: 'kube-system', name: 'slicewire-agents' },
      tokenFile: '/var/run/secrets/slicewire/token',
      leaveOutAfter: 60_000,
      authentication: true,
      listen: { address: '127.0.0.1', port: 10_262, text: '127.0.0.1:10262' },
      scrape: undefined,
      connectionsPerClient: 16,
      log: { format: 'auto', verbosity: 0 },
    });
  });

  it('takes the values of all flags', () => {
    const config = fleetConfig({
      ...{ kubeconfig: '/k', master: 'https://api:6443', agentsService: 'proxy/agents', tokenFile: '/t' },
      ...{ leaveOutAfter: '0s', authentication: 'false', bindAddress: '127.0.0.1', scrapeBindAddress: '192.0.2.7' },
      maxConnectionsPerClient: '40',
      ...{ loggingFormat: 'json', v: '4' },
    });
    assert.deepEqual(config, {
      ...{
        kubeconfig: '/k',
        master: 'https://api:6443',
        agents: { namespace: 'proxy', name: 'agents' },
        tokenFile: '/t',
      },
      ...{ leaveOutAfter: 0, authentication: false },
      listen: { address: '127.0.0.1', port: 10_262, text: '127.0.0.1:10262' },
      scrape: { address: '192.0.2.7', port: 10_262, text: '192.0.2.7:10262' },
      connectionsPerClient: 40,
      log: { format: 'json', verbosity: 4 },
    });
  });

  it('names every fault in one error', () => {
    assert.throws(() => fleetConfig({ tokenFile: '', leaveOutAfter: 'x' }), {
      message: `--token-file=: must name a file; --leave-out-after=x: ${problemIn(FLAGS, '--iptables-sync-period=30')}`,
    });
  });
});
