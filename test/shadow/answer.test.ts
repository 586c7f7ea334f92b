/** The answer of a shadow, and its text. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { API_VERSION } from '../../src/inspect/wire/envelope.ts';
import { type Shadow, shadowSchema } from '../../src/inspect/wire/shadow.ts';
import { shadowText } from '../../src/inspect/wire/shadow-text.ts';
import type { VerifiedDifference } from '../../src/inspect/wire/verification.ts';
import type { ServiceKey } from '../../src/proxy/model/objects.ts';
import { shadowOf } from '../../src/shadow/answer.ts';
import { Findings } from '../../src/shadow/findings.ts';

const NOON = Date.UTC(2026, 10, 29, 12);
const AT = '2026-11-29T12:01:40.000Z';

function answered(findings: Findings): Shadow {
  return shadowSchema.parse(
    shadowOf({
      by: { who: 'agent', mode: 'iptables', rules: 'kube-proxy', node: 'node-1', version: '0.1.0', at: AT },
      ...{ pid: 7, startedAt: '2026-11-29T12:00:00.000Z', source: 'the API server https://cp:6443' },
      heard: [{ of: 'Services', at: AT, lost: null }],
      ...{ objects: { services: 2, slices: 3 }, cost: { processor: 1.25, memory: 2 ** 27 } },
      ...{ findings, sight: 'chains named', now: 100_000, wallAtZero: NOON },
    }),
  );
}

const silent = { theirs: () => undefined, plan: () => undefined };

const stale: VerifiedDifference = {
  ...{ family: 'IPv4', object: 'from the node to 10.96.0.20:80/tcp', service: 'shop/web', kind: 'changed' },
  ...{ wanted: ['sent to 10.244.1.11:8080'], found: ['sent to 10.244.1.12:8080'], because: '', repaired: false },
  causes: ['10.244.1.12:8080 is in no EndpointSlice of Service shop/web: it is stale.'],
};

describe('the answer of a shadow', () => {
  it('says before the first comparison that there was none', () => {
    const answer = answered(new Findings(silent));
    assert.deepEqual(
      [answer.apiVersion, answer.kind, answer.compared, answer.change],
      [API_VERSION, 'Shadow', null, null],
    );
    assert.equal(answer.problem, 'no comparison has ended yet');
    assert.match(shadowText(answer), /The rules cannot be compared now: no comparison has ended yet\./);
  });

  it('has the differences with the moments since when, both latencies, and what a switch would change', () => {
    const latencies: string[] = [];
    const findings = new Findings({
      theirs: (latency) => latencies.push(`theirs ${latency}`),
      plan: (latency) => latencies.push(`plan ${latency}`),
    });
    findings.problem = undefined;
    findings.differences.found('shop/web' as ServiceKey, [stale], 40_000);
    findings.planReady(50_002, 2);
    findings.programming.changed('shop/web' as ServiceKey, 50_000, true);
    findings.programming.committed(51_500, () => true);
    findings.programming.written('shop/web' as ServiceKey);
    findings.programming.changed('shop/dns' as ServiceKey, 90_000, true);
    findings.switchPlanned({ steps: [] }, 1000, 1);
    findings.round = { at: 60_000, connections: 81, milliseconds: 99, onPurpose: [stale], onPurposeCount: 1 };
    const answer = answered(findings);
    assert.deepEqual(latencies, ['plan 2', 'theirs 1500']);
    assert.deepEqual(
      answer.differences.map(({ service, kind, since }) => [service, kind, since]),
      [['shop/web', 'changed', '2026-11-29T12:00:40.000Z']],
    );
    assert.deepEqual([answer.latency.theirs?.most, answer.latency.plan?.most], [1500, 2]);
    assert.deepEqual(answer.waiting, { services: 1, oldest: '2026-11-29T12:01:30.000Z' });
    assert.equal(
      shadowText(answer),
      `slicewire 0.1.0 on node-1: a shadow of kube-proxy in iptables mode, pid 7, for 1 min
It writes nothing to the kernel.

Source: the API server https://cp:6443 (2 Services, 3 EndpointSlices)
  Services  heard of 0 s ago

kube-proxy's rules do not do what the objects ask for: 1 difference by Service and kind, 81
connections followed in 99 ms.
  Service shop/web, since 12:00:40.000: 1 connection, such as from the node to 10.96.0.20:80/tcp
    is sent to 10.244.1.12:8080
    should be sent to 10.244.1.11:8080
    10.244.1.12:8080 is in no EndpointSlice of Service shop/web: it is stale.
kube-proxy is not known to have written the changes of 1 Service, the oldest received 10 s ago.

Time until the rules follow a change:
  kube-proxy, from its receipt to the commit  half within 1.5 s   99 % within 1.5 s   all within 1.5 s   1 change since 12:00:00.000
  slicewire, to make its rules                half within 2.0 ms  99 % within 2.0 ms  all within 2.0 ms  1 change since 12:00:00.000
A commit has a change when it names the chains of its Service.

A switch to slicewire:
  slicewire would create 0 kernel objects, change 0 and remove 0 (planned at 12:00:01.000).
  1 open connection to Services would go on: the kernel keeps the endpoint of each.
  1 connection would go elsewhere, because kube-proxy leads them elsewhere on purpose: from the
  node to 10.96.0.20:80/tcp.

The shadow itself: 1.3 s of processor time in 1 min, 128.0 MiB of memory`,
    );
  });
});
