/** ServiceCIDRs of an API server: one that has them, one that does not know them, one that does not let the agent see them. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { LogLine } from '../../src/cli/lab/agent-process.ts';
import { LAB } from '../../src/cli/lab/lab.ts';
import type { Child } from '../../src/kernel/commands.ts';
import type { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { nodeOf, serviceCidr } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { LONGEST, log, runStory, startAgent, web, webSlice } from './inside.ts';

const RANGE = '10.96.0.0/16';
const ADAPTS = /^the Node, the cluster or this machine changed, .*IPv4 ranges of cluster IPs: from .* to /;

function start(kubeconfig: string): Child {
  const periods = ['--nftables-sync-period', '1s', '--nftables-min-sync-period', '0s'];
  return startAgent('--mode=nftables', '--kubeconfig', kubeconfig, ...periods, '--conntrack-max-per-core', '0');
}

/** "" while there is no table. */
async function listed(kind: 'set' | 'map', name: string): Promise<string> {
  return (await shellCommands.run({ file: 'nft', args: ['list', kind, 'ip', 'slicewire', name] }, NEVER)).stdout;
}

async function eventually(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + LONGEST; !(await holds()); await pause(50)) {
    if (performance.now() > end) throw new Error(`${what}\n${log.map(({ msg }) => msg).join('\n')}`);
  }
}

const serves = (n: number) => async () => (await listed('map', 'services')).includes(`10.96.0.${n} . tcp . 80`);
const hasRange = async () => (await listed('set', 'service-cidrs')).includes(RANGE);

async function livez(): Promise<number> {
  return (await fetch('http://127.0.0.1:10256/livez', { headers: { connection: 'close' } })).status;
}

/** Node ports are on the Node's address: it is waited for. */
function putWeb(server: ApiServer): void {
  server.put({ ...nodeOf(undefined), status: { addresses: [{ type: 'InternalIP', address: LAB.node.v4 }] } });
  server.put(web(1));
  server.put(webSlice(1, '10.244.0.1'));
}

/** They are there at the start, go, and come again. */
async function ranges(server: ApiServer, kubeconfig: string): Promise<Child> {
  putWeb(server);
  server.put(serviceCidr(RANGE, 'fd00:96::/108'));
  const agent = start(kubeconfig);
  await eventually('the Service is there', serves(1));
  await eventually('the range is there', hasRange);
  server.delete('ServiceCIDR', 'kubernetes');
  await eventually('the range goes', async () => !(await hasRange()));
  assert.ok(await serves(1)());
  server.put(serviceCidr(RANGE));
  await eventually('the range comes again', hasRange);
  // A change that comes while another is adapted to has no line of its own.
  const said = log.filter(({ msg }) => ADAPTS.test(msg)).map(({ msg }) => msg);
  assert.ok(
    said.some((line) => line.includes(RANGE)),
    log.map(({ msg }) => msg).join('\n'),
  );
  return agent;
}

/**
 * Services are followed all the same, the log says once what is not, and the agent is well. Where the API server forbids ServiceCIDRs it
 * is asked again, and when it gives them they count; one that has none is asked once for each version of the API.
 */
function without(status: 403 | 404): (server: ApiServer, kubeconfig: string) => Promise<Child> {
  return async (server, kubeconfig) => {
    putWeb(server);
    server.put(serviceCidr(RANGE));
    server.failNext(1_000_000, status, {}, { resource: 'servicecidrs' });
    const agent = start(kubeconfig);
    await eventually('the Service is there', serves(1));
    const said = status === 404 ? /^the API server has no servicecidrs; / : /^cannot follow servicecidrs since 20.*403/;
    // Each try has a line of -v 2.
    const isLogged = ({ level, msg }: LogLine) => level !== 'debug' && said.test(msg);
    const asked = () => server.requests({ resource: 'servicecidrs' }).length;
    await eventually('it is logged', () => log.some(isLogged));
    if (status === 403) await eventually('it is tried again', () => asked() > 2);
    server.put(web(2));
    server.put(webSlice(2, '10.244.0.2'));
    await eventually('Services are followed', serves(2));
    assert.equal(log.filter(isLogged).length, 1, 'it is logged once');
    assert.equal(await livez(), 200);
    assert.equal(await hasRange(), false);
    if (status === 404) assert.equal(asked(), 2);
    else {
      server.recover();
      await eventually('the range is there', hasRange);
    }
    return agent;
  };
}

await runStory({ ranges, 'no-ranges': without(404), 'ranges-forbidden': without(403) });
