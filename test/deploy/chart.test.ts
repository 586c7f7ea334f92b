/** deploy/chart: what Helm makes of it is what kustomize makes of deploy/. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { chartTexts } from '../../scripts/chart.ts';
import { BASE, HELM, inEffect, options, refused, rendered, set } from '../helpers/deploy/chart.ts';
import { helm, isRightBySchemas, kustomize, NO_KUBECTL } from '../helpers/deploy/deployed.ts';

const file = (path: string) => readFileSync(new URL(`../../deploy/chart/${path}`, import.meta.url), 'utf8');

describe('deploy/chart', () => {
  it('has the version of the program', () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    const chart = parse(file('Chart.yaml'));
    assert.deepEqual([chart.version, chart.appVersion], [version, version]);
  });

  it('has a schema and a table of values that say what the program and values.yaml say', () => {
    const texts = [...chartTexts()];
    assert.ok(texts.length >= 2);
    for (const [name, text] of texts) {
      assert.ok(file(name) === text, `deploy/chart/${name} is stale: run node scripts/chart.ts`);
    }
  });

  it('describes every value, and has a default for each', () => {
    const rows = file('README.md').matchAll(/^\| `([^`]+)` \| `([^`]*)` \| (.+) \|$/gm);
    const described = [...rows].map(([, name = '', value]) => {
      assert.notEqual(value, 'undefined', name);
      return name.split('.')[0];
    });
    assert.deepEqual([...new Set(described)].sort(), Object.keys(parse(file('values.yaml'))).sort());
  });

  it('has nothing that Helm finds wrong', options, async () => {
    const { exitCode, stdout } = await helm(HELM ?? assert.fail(), 'lint', ['--strict', ...set(BASE)]);
    assert.equal(exitCode, 0, stdout);
  });

  it('needs the address of the control plane, and says why', options, async () => {
    assert.match(
      await refused('mode=nftables'),
      /apiServer is empty\. Set it to https:\/\/HOST:PORT of the control plane/,
    );
  });
});

describe('deploy/chart beside kustomize', () => {
  for (const [overlay, values] of [
    ['base', BASE],
    ['overlays/iptables', BASE],
    ['overlays/nftables', [...BASE, 'mode=nftables']],
    ['overlays/ipvs', [...BASE, 'mode=ipvs', 'config.ipvs.scheduler=rr']],
    ['overlays/kubeadm', ['existingConfigMap.name=kube-proxy']],
  ] as const) {
    it(`makes the objects of deploy/${overlay}`, options, async (context) => {
      const expected = await kustomize(overlay);
      if (expected === undefined) return context.skip(NO_KUBECTL.skip);
      assert.deepEqual(inEffect(await rendered(values)), inEffect(expected));
    });
  }

  it('makes the objects of deploy/monitoring, where asked', options, async (context) => {
    const overlays = [
      await kustomize('monitoring/overlays/nftables'),
      await kustomize('monitoring/overlays/controller'),
      await kustomize('monitoring/overlays/fleet'),
    ];
    const [agents, controllers, fleet] = overlays;
    if (agents === undefined || controllers === undefined || fleet === undefined) return context.skip(NO_KUBECTL.skip);
    const monitored = ['mode=nftables', 'monitoring.enabled=true'];
    assert.deepEqual(inEffect(await rendered([...BASE, ...monitored])), inEffect(agents));
    const whole = await rendered([...BASE, ...monitored, 'controller.enabled=true', 'fleet.enabled=true']);
    assert.deepEqual(inEffect(whole), inEffect([...agents, ...controllers, ...fleet]));
  });

  for (const part of ['controller', 'fleet']) {
    it(`makes the objects of deploy/${part}, where asked`, options, async (context) => {
      const expected = await kustomize(part);
      if (expected === undefined) return context.skip(NO_KUBECTL.skip);
      const all = inEffect(await rendered([...BASE, `${part}.enabled=true`]));
      for (const name of inEffect(await rendered()).keys()) all.delete(name);
      assert.deepEqual(all, inEffect(expected));
    });
  }

  it('makes objects that are right by the published schemas, with many values set', options, async () => {
    const parts = ['controller.enabled=true', 'fleet.enabled=true', 'fleet.clusterIP=10.96.0.42'];
    const values = [...BASE, ...parts, 'image.pullSecrets[0]=registry', 'podLabels.team=net'];
    const all = await rendered([...values, 'affinity.nodeAffinity=null', 'nodeSelector.pool=a', 'extraArgs[0]=--v=4']);
    isRightBySchemas(all);
    assert.equal(all.length, 24);
  });
});
