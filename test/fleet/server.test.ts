/** `slicewire fleet` with an API server and agents on real sockets: what it answers, to whom, and how it ends. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { drainedSchema } from '../../src/inspect/wire/drained.ts';
import { fleetLiveSchema, fleetProgrammedSchema } from '../../src/inspect/wire/fleet.ts';
import { aWhile, until } from '../helpers/base/until.ts';
import { agentsSlice, Cluster, type Fleet } from './rig.ts';

let cluster: Cluster;

beforeEach(async () => {
  cluster = await Cluster.start(['n1', 'n2', 'n3']);
});
afterEach(() => cluster.stop());

/** A fleet that has read everything, and hears of all agents that answer. */
async function ready(agents = 3): Promise<Fleet> {
  const fleet = await cluster.fleet();
  await fleet.ready();
  await until('all streams', async () => (await metric(fleet, 'slicewire_fleet_connections')) === agents);
  return fleet;
}

async function metric(fleet: Fleet, name: string): Promise<number> {
  const { text } = await fleet.ask('/metrics');
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.split(' ')[1] ?? Number.NaN);
}

const waiting = (fleet: Fleet, count = 1) =>
  until('a question that waits', async () => (await metric(fleet, 'slicewire_fleet_drains_waiting')) === count);

/** web-1 ends, and web-2 goes on. */
const webEnds = () => cluster.setPods({ 'web-1': 'ending', 'web-2': 'ready' });

describe('/drained', () => {
  it('answers when the last node has the change in its kernel', async () => {
    const fleet = await ready();
    let isAnswered = false;
    const asking = fleet.drained('pod=shop/web-1').finally(() => {
      isAnswered = true;
    });
    await waiting(fleet);
    webEnds();
    cluster.programmed('n1', 'n2');
    await aWhile(100);
    assert.equal(isAnswered, false, 'n3 may still send to it');
    cluster.programmed('n3');
    const { status, waited, ...answer } = await asking;
    assert.equal(status, 200);
    assert.ok(waited > 50);
    assert.deepEqual(drainedSchema.parse({ ...answer, waited }), {
      ...{ apiVersion: 'slicewire/v1', kind: 'Drained', drained: true, of: 'Pod shop/web-1', services: ['shop/web'] },
      ...{ why: '', waited },
      nodes: { programmed: 3, behind: [], behindCount: 0, leftOut: [], leftOutCount: 0 },
    });
  });

  it('costs the API server its watches alone, however much changes and is asked', async () => {
    const fleet = await ready();
    const before = cluster.api.requests().length;
    for (let i = 0; i < 20; i += 1) {
      cluster.setPods({ 'web-1': i % 2 === 0 ? 'ending' : 'ready', 'web-2': 'ready', [`web-${i + 3}`]: 'ready' });
      cluster.programmed('n1', 'n2', 'n3');
      if (i % 2 === 0) assert.equal((await fleet.drained('pod=shop/web-1')).status, 200);
    }
    assert.deepEqual(cluster.api.requests().slice(before), []);
  });

  it('answers by the address of an endpoint', async () => {
    const fleet = await ready();
    webEnds();
    cluster.programmed('n1', 'n2', 'n3');
    assert.equal((await fleet.drained('address=10.1.0.1')).status, 200);
    assert.equal((await fleet.drained('address=10.1.0.2&timeout=0s')).status, 504);
  });

  it('says that an endpoint still takes connections', async () => {
    const fleet = await ready();
    const { status, drained, why } = await fleet.drained('pod=shop/web-2&timeout=50ms');
    assert.deepEqual([status, drained], [504, false]);
    assert.match(why, /^Service shop\/web .* 10\.1\.0\.2: it is ready/);
  });

  it('answers a preStop hook, which asks without a token from an address of its Node', async () => {
    // The kubelet of n1 asks from the address that n1 has here.
    cluster.putNode('n1', '127.0.0.1');
    const fleet = await ready();
    webEnds();
    cluster.programmed('n1', 'n2', 'n3');
    const hook = { headers: { host: 'slicewire-fleet.kube-system:10262', 'user-agent': 'kube-lifecycle/1.36' } };
    const { status, text } = await fleet.ask('/drained?service=shop/web', hook);
    assert.equal(status, 200);
    assert.equal(JSON.parse(text).of, 'endpoints of Service shop/web on Node n1');
    // Other questions need a token there.
    for (const path of ['/drained?pod=shop/web-1', '/programmed', '/', '/live'])
      assert.equal((await fleet.ask(path, hook)).status, 401, path);
  });

  it('refuses a preStop hook from an address of no Node', async () => {
    const fleet = await ready();
    const { status, text } = await fleet.ask('/drained?service=shop/web');
    assert.equal(status, 400);
    assert.match(
      JSON.parse(text).message,
      /comes from \S*127\.0\.0\.1, which is no address of a Node .*: ask with pod$/,
    );
  });

  it('names what is wrong with a question', async () => {
    const fleet = await ready();
    for (const [query, message] of [
      ['', '/drained takes one of pod, address and service, but none of them is given'],
      ['pod=a/b&address=10.0.0.1', '/drained takes one of pod, address and service, but pod and address are given'],
      ['pod=web-1', 'pod=web-1: must be NAMESPACE/NAME, such as shop/web'],
      ['service=Shop/web', 'service=Shop/web: must be NAMESPACE/NAME, such as shop/web'],
      ['address=web-1', '/drained: address=web-1: must be an IP address'],
      ['pod=a/b&timeout=30', '/drained: timeout=30: must be a duration such as 30s, at most 10m'],
      ['pod=a/b&timeout=11m', '/drained: timeout=11m: must be a duration such as 30s, at most 10m'],
      ['pod=a/b&pod=a/c', '/drained: pod is given twice; give it once'],
      ['pods=a/b', '/drained has no parameter pods: it takes pod, address, service, timeout'],
    ] as const) {
      const { status, text } = await fleet.ask(`/drained?${query}`);
      assert.deepEqual([status, JSON.parse(text).message], [400, message]);
    }
  });

  it('takes back that a pod takes no connections where it is ready again', async () => {
    const fleet = await ready();
    const asking = fleet.drained('pod=shop/web-1&timeout=1s');
    await waiting(fleet);
    webEnds();
    cluster.programmed('n1', 'n2');
    await aWhile(50);
    cluster.setPods({ 'web-1': 'ready', 'web-2': 'ready' });
    await aWhile(50);
    cluster.programmed('n1', 'n2', 'n3');
    assert.equal((await asking).status, 504);
  });

  it('waits for the lists, and says what it lacks when the time is over', async () => {
    cluster.api.failNext(1_000_000, 500, {}, { resource: 'nodes' });
    const fleet = await cluster.fleet();
    const { status, text } = await fleet.ask('/drained?pod=shop/web-1&timeout=100ms');
    assert.deepEqual(
      [status, JSON.parse(text).message],
      [503, 'the lists of the fleet are not complete yet: ask again'],
    );
    assert.equal((await fleet.ask('/readyz')).text, 'the initial lists are not complete\n');
    webEnds();
    cluster.programmed('n1', 'n2', 'n3');
    const asking = fleet.drained('pod=shop/web-1');
    cluster.api.recover();
    assert.equal((await asking).status, 200);
  });
});

describe('a node that is behind is named with its reason', () => {
  /** web-1 ends, all nodes but n3 have that, and the time is over. Returns the reason of n3. */
  async function reasonOf(fleet: Fleet, more: readonly string[] = []): Promise<string> {
    webEnds();
    cluster.programmed('n1', 'n2', ...more);
    const { status, nodes } = await fleet.drained('pod=shop/web-1&timeout=200ms');
    assert.deepEqual([status, nodes.programmed, nodes.behindCount], [504, 2, 1]);
    const [{ node, why } = assert.fail()] = nodes.behind;
    assert.equal(node, 'n3');
    return why;
  }

  it('an agent that stands still', async () => {
    const fleet = await ready();
    cluster.agent('n3').isStopped = true;
    assert.equal(await reasonOf(fleet), 'its agent has not written the change yet');
  });

  it('an agent that never answers', async () => {
    cluster.agent('n3').isStopped = true;
    assert.equal(await reasonOf(await ready(2)), 'the fleet has no connection to its agent yet');
  });

  it('an agent that cannot write', async () => {
    const fleet = await ready();
    cluster.agent('n3').send({ stuck: { why: 'nft: no memory', age: 0 } });
    assert.equal(await reasonOf(fleet), 'its agent cannot write: nft: no memory');
  });

  it('an agent whose kernel refuses the Service', async () => {
    const fleet = await ready();
    cluster.agent('n3').send({ behind: { set: [{ service: 'shop/web', why: 'too many rules', age: 0 }], gone: [] } });
    assert.equal(
      await reasonOf(fleet, ['n3']),
      'an older version of Service shop/web is in the kernel: too many rules',
    );
  });

  it('an agent of an older version', async () => {
    await cluster.agent('n3').stop();
    await cluster.putAgent({ node: 'n3', answer: (_, response) => void response.writeHead(404).end() });
    assert.equal(await reasonOf(await ready(2)), 'its agent is too old: it has no /programmed/live');
  });

  it('an agent that refuses the token', async () => {
    await cluster.agent('n3').stop();
    await cluster.putAgent({ node: 'n3', token: 'another' });
    const fleet = await ready(2);
    await until('the refusal', () => cluster.agent('n3').asked.length > 0);
    assert.match(await reasonOf(fleet), /^no connection to its agent: it answered 401: the token is not valid$/);
  });

  it('an agent that is gone', async () => {
    const fleet = await ready();
    cluster.api.delete('EndpointSlice', 'kube-system/slicewire-agents-n3');
    await until('the end of its stream', () => cluster.agent('n3').streams === 0);
    assert.match(await reasonOf(fleet), /^its agent is gone/);
  });

  it('and is not waited for when it is left out', async () => {
    cluster.putNode('n3', '192.0.2.3', false);
    const fleet = await ready();
    webEnds();
    cluster.programmed('n1', 'n2');
    const { status, nodes } = await fleet.drained('pod=shop/web-1');
    assert.deepEqual([status, nodes.behindCount, nodes.leftOut.map(({ node }) => node)], [200, 0, ['n3']]);
  });
});

describe('the fleet and its agents', () => {
  it('hears an agent again that was restarted at another port', async () => {
    const fleet = await ready();
    webEnds();
    cluster.programmed('n1', 'n2');
    const asking = fleet.drained('pod=shop/web-1');
    await waiting(fleet);
    await cluster.agent('n3').stop();
    // It has read everything when it answers.
    await cluster.putAgent({ node: 'n3' });
    assert.equal((await asking).status, 200);
  });

  it('hears an agent again whose connection broke, at the same port', async () => {
    const fleet = await ready();
    webEnds();
    cluster.programmed('n1', 'n2');
    const asking = fleet.drained('pod=shop/web-1');
    await waiting(fleet);
    cluster.agent('n3').endStreams();
    await until('another stream', () => cluster.agent('n3').asked.length === 2);
    cluster.programmed('n3');
    assert.equal((await asking).status, 200);
  });

  it('answers in the middle of a drain after it was restarted itself', async () => {
    const first = await ready();
    webEnds();
    cluster.programmed('n1', 'n2');
    const before = await first.drained('pod=shop/web-1&timeout=50ms');
    assert.equal(before.status, 504);
    await first.stopped();
    const second = await ready();
    const asking = second.drained('pod=shop/web-1');
    await waiting(second);
    cluster.programmed('n3');
    assert.equal((await asking).status, 200);
  });

  it('follows a store that was restored', async () => {
    const fleet = await ready();
    const { version } = cluster.api;
    for (let i = 0; i < 10; i++) cluster.setPods({ 'web-1': 'ready', 'web-2': 'ready' });
    cluster.programmed('n1', 'n2', 'n3');
    await aWhile(50);
    // It is away for a moment.
    cluster.api.failNext(4, 0, {}, { kind: 'watch' });
    cluster.api.restore(version);
    const isRestored = () => fleet.lines.some((line) => line.includes('resourceVersion of slices went back'));
    await until('the new lists', () => isRestored() && cluster.api.watches === 4);
    webEnds();
    const late = await fleet.drained('pod=shop/web-1&timeout=3s');
    assert.equal(late.status, 504, 'marks of before say nothing of the restored store');
    cluster.programmed('n1', 'n2', 'n3');
    assert.equal((await fleet.drained('pod=shop/web-1')).status, 200);
  });

  it('names what it cannot read, and goes on', async () => {
    const fleet = await ready();
    const broken = agentsSlice('n4', 70_000);
    cluster.api.put(broken);
    await until('the fault', () => fleet.lines.some((line) => line.includes('must have the port of the agents')));
    webEnds();
    cluster.programmed('n1', 'n2', 'n3');
    assert.equal((await fleet.drained('pod=shop/web-1')).status, 200);
  });
});

describe('the other paths of the fleet', () => {
  it('tells how far the nodes are, of one Service and of all', async () => {
    const fleet = await ready();
    const version = webEnds();
    cluster.programmed('n1', 'n2');
    const answerOf = async (query: string) =>
      fleetProgrammedSchema.parse(JSON.parse((await fleet.ask(`/programmed${query}`)).text));
    await until('two nodes', async () => (await answerOf('?service=shop/web')).programmed === 2);
    const one = await answerOf('?service=shop/web');
    assert.deepEqual([one.service, one.versions.slices, one.behindCount], ['shop/web', version, 1]);
    assert.deepEqual((await answerOf('')).service, null);
    assert.equal((await fleet.ask('/programmed?service=shop/none')).status, 400);
    assert.equal((await fleet.ask('/programmed?pod=a/b')).status, 400);
  });

  it('counts changes by the time that nodes needed, answers, and agents', async () => {
    const fleet = await ready();
    webEnds();
    cluster.programmed('n1', 'n2', 'n3');
    await fleet.drained('pod=shop/web-1');
    await fleet.drained('pod=shop/web-2&timeout=0s');
    const { text, headers } = await fleet.ask('/metrics');
    assert.match(headers['content-type'] ?? '', /^text\/plain/);
    for (const line of [
      /^# TYPE slicewire_fleet_programming_seconds histogram$/m,
      /^slicewire_fleet_programming_seconds_bucket\{le="600"\} 3$/m,
      /^slicewire_fleet_programming_seconds_bucket\{le="\+Inf"\} 3$/m,
      /^slicewire_fleet_programming_seconds_count 3$/m,
      /^slicewire_fleet_last_node_seconds_count 1$/m,
      /^slicewire_fleet_nodes\{state="current"\} 3$/m,
      /^slicewire_fleet_nodes\{state="no answer"\} 0$/m,
      /^slicewire_fleet_connections 3$/m,
      /^slicewire_fleet_events_total 6$/m,
      /^slicewire_fleet_drains_waiting 0$/m,
      /^slicewire_fleet_drained_total\{result="drained"\} 1$/m,
      /^slicewire_fleet_drained_total\{result="late"\} 1$/m,
      /^slicewire_watch_failing\{kind="agents"\} 0$/m,
      /^slicewire_build_info\{version="9\.9\.9",/m,
    ])
      assert.match(text, line);
  });

  it('streams what the page shows', async () => {
    const fleet = await ready();
    const { status, headers } = await fleet.ask('/live', { method: 'HEAD' });
    assert.deepEqual([status, headers['content-type']], [200, 'text/event-stream; charset=utf-8']);
    const response = await fetch(`http://127.0.0.1:${fleet.port}/live`);
    const reader = (response.body ?? assert.fail()).pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!/^data: .*\n\n/m.test(text)) text += (await reader.read()).value ?? assert.fail('the stream ended');
    const [, data = ''] = /^data: (.*)$/m.exec(text) ?? [];
    const live = fleetLiveSchema.parse(JSON.parse(data));
    assert.deepEqual(
      live.nodes.map(({ name, state }) => [name, state]),
      ['n1', 'n2', 'n3'].map((name) => [name, 'current']),
    );
    text = '';
    cluster.agent('n2').send({ health: { healthy: false, reasons: ['the disk is full'] } });
    while (!text.includes('the disk is full')) text += (await reader.read()).value ?? assert.fail('the stream ended');
    assert.ok(!text.includes('"n1"'), 'a later event has what changed');
    await reader.cancel();
  });

  it('is not ready at first while a Node has no agent: one may be away, and its rules stand', async () => {
    cluster.putNode('n4', '192.0.2.4');
    const fleet = await cluster.fleet();
    const readiness = async () => (await fleet.ask('/readyz')).text;
    const why =
      'n4: no agent has an endpoint there yet, and rules of an earlier one may be in the kernel; waiting for at most 60 s\n';
    await until('the reason', async () => (await readiness()) === why);
    await cluster.putAgent({ node: 'n4' });
    await fleet.ready();
  });

  it('serves health, its flags and its page, and nothing else', async () => {
    const fleet = await ready();
    for (const path of ['/healthz', '/livez', '/readyz']) assert.equal((await fleet.ask(path)).text, 'ok');
    assert.match((await fleet.ask('/statusz')).text, /^\nslicewire-fleet statusz\n/);
    assert.match((await fleet.ask('/flagz')).text, /^\nslicewire-fleet flagz\n/);
    assert.deepEqual(await bodyOf('/'), [503, 'there is no fleet.html\n']);
    assert.deepEqual(await bodyOf('/page/page.css'), [503, 'there is no page.css\n']);
    assert.deepEqual(await bodyOf('/other'), [404, '404 page not found\n']);
    assert.equal((await fleet.ask('/drained', { method: 'POST' })).status, 405);
    assert.equal((await fleet.ask('/healthz', { method: 'DELETE' })).status, 405);
    webEnds();
    cluster.programmed('n1', 'n2', 'n3');
    const head = await fleet.ask('/drained?pod=shop/web-1', { method: 'HEAD' });
    assert.deepEqual([head.status, head.text], [200, '']);

    async function bodyOf(path: string) {
      const { status, text } = await fleet.ask(path);
      return [status, text];
    }
  });

  it('asks for a token where the request is not of this machine, unless that is off', async () => {
    const named = { headers: { host: 'slicewire-fleet.kube-system' } };
    const fleet = await ready();
    for (const path of ['/drained?pod=a/b', '/programmed', '/', '/live', '/statusz', '/flagz']) {
      const { status, headers } = await fleet.ask(path, named);
      assert.deepEqual([status, headers['www-authenticate']], [401, 'Bearer'], path);
    }
    for (const path of ['/healthz', '/livez', '/readyz'])
      assert.equal((await fleet.ask(path, named)).status, 200, path);
    // Metrics need no token, but the name of this machine where the request arrives at its loopback (serve/foreign-host.test.ts).
    assert.equal((await fleet.ask('/metrics', named)).status, 403);
    assert.equal((await fleet.ask('/metrics')).status, 200);
    const open = await cluster.fleet({ flags: { authentication: 'false' } });
    await open.ready();
    for (const path of ['/programmed', '/statusz']) assert.equal((await open.ask(path, named)).status, 200, path);
  });
});

describe('a fleet that is told to stop', () => {
  it('ends at once where nobody waits', async () => {
    const fleet = await ready();
    await fleet.stopped();
    await assert.rejects(fleet.ask('/healthz'), { code: 'ECONNREFUSED' });
    await until('the end of all streams', () => ['n1', 'n2', 'n3'].every((name) => cluster.agent(name).streams === 0));
    assert.equal(cluster.api.watches, 0);
  });

  it('still answers the questions that wait, and takes no others', async () => {
    const fleet = await ready();
    webEnds();
    const asking = fleet.drained('pod=shop/web-1');
    await waiting(fleet);
    fleet.terminate();
    await until(
      'a closed port',
      async () =>
        await fleet.ask('/healthz').then(
          () => false,
          () => true,
        ),
    );
    cluster.programmed('n1', 'n2', 'n3');
    assert.equal((await asking).status, 200);
    await fleet.stopped();
  });

  it('says that it stops to a question that waits for the lists', async () => {
    cluster.api.failNext(1_000_000, 500, {}, { resource: 'nodes' });
    const fleet = await cluster.fleet({ ending: 100 });
    const asking = fleet.ask('/drained?pod=shop/web-1');
    await aWhile(100);
    fleet.terminate();
    const { status, text } = await asking;
    assert.equal(status, 503);
    assert.match(JSON.parse(text).message, /^this replica of the fleet stops/);
    await fleet.stopped();
  });

  it('says after a while that it stops', async () => {
    const fleet = await cluster.fleet({ ending: 100 });
    await fleet.ready();
    webEnds();
    const asking = fleet.ask('/drained?pod=shop/web-1');
    await waiting(fleet);
    fleet.terminate();
    const { status, text } = await asking;
    assert.equal(status, 503);
    assert.match(JSON.parse(text).message, /^this replica of the fleet stops: ask again, and another one answers$/);
    await fleet.stopped();
  });
});
