/** kube-proxy's feature gates: which are known, how they are written, and what is said of them. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { loadConfig } from '../../src/agent/load-config.ts';
import { API_VERSION, fileText } from '../../src/config/config-file.ts';
import { ConfigError } from '../../src/config/flags.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { flagsFromText } from '../helpers/cluster/documents/documents.ts';

const gatesOf = (featureGates: string) => configFromFlags({ featureGates }).featureGates;
const HEAD = `apiVersion: ${API_VERSION}\nkind: KubeProxyConfiguration\n`;

describe('feature gates', () => {
  it("are read as Go's flags are", () => {
    assert.deepEqual(gatesOf(''), {});
    assert.deepEqual(gatesOf('AllowServiceExternalIPs=f, WinDSR = TRUE ,,'), {
      AllowServiceExternalIPs: false,
      WinDSR: true,
    });
  });

  it('are known from 1.30 on, with those for all of a stage', () => {
    const names = ['AllAlpha', 'AllBeta', 'KMSv2KDF', 'TopologyAwareHints', 'PreferSameTrafficDistribution', 'PodsAPI'];
    for (const name of names) assert.deepEqual(gatesOf(`${name}=true`), { [name]: true });
  });

  const wrong: Readonly<Record<string, string>> = {
    'NoSuchGate=true': '--feature-gates=NoSuchGate=true: unrecognized feature gate: NoSuchGate',
    'allowserviceexternalips=false':
      '--feature-gates=allowserviceexternalips=false: unrecognized feature gate: allowserviceexternalips; did you mean AllowServiceExternalIPs?',
    'AllowServiceExternalIPs=maybe':
      '--feature-gates=AllowServiceExternalIPs=maybe: invalid value of AllowServiceExternalIPs=maybe: must be true or false',
    AllowServiceExternalIPs:
      '--feature-gates=AllowServiceExternalIPs: AllowServiceExternalIPs: must be a name with true or false, such as AllowServiceExternalIPs=false',
    '__proto__=true': '--feature-gates=__proto__=true: unrecognized feature gate: __proto__',
  };
  for (const [text, message] of Object.entries(wrong)) {
    it(`wrong: ${text}`, () => assert.throws(() => gatesOf(text), { constructor: ConfigError, message }));
  }

  it('of a file that are wrong are reported by the field', () => {
    const { flags, origins } = flagsFromText(`${HEAD}featureGates: {NoSuchGate: true}\n`, {});
    assert.throws(() => configFromFlags(flags, { origins, file: 'config.conf' }), {
      message: '--config: featureGates: NoSuchGate=true: unrecognized feature gate: NoSuchGate',
    });
  });

  it('are written and read again', () => {
    const config = configFromFlags({
      featureGates: 'AllowServiceExternalIPs=false,WinDSR=true',
      hostnameOverride: 'n',
    });
    const read = configFromFlags(flagsFromText(fileText(config), {}).flags);
    assert.deepEqual(read.featureGates, { AllowServiceExternalIPs: false, WinDSR: true });
    assert.ok(!fileText(configFromFlags({})).includes('featureGates'));
  });

  it('without an effect are named, in flags and file, and so are flags that a file replaces', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-gates-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = join(folder, 'config.conf');
    await writeFile(file, `${HEAD}featureGates: {AllowServiceExternalIPs: false, WinDSR: true}\n`);
    const texts = async (flags: Record<string, string>) => (await loadConfig(flags)).notes.map(({ text }) => text);
    const only =
      'no effect: slicewire has only the gates AllowServiceExternalIPs, KubeProxyNFTablesLocalhostNodePorts and WatchListClient';
    assert.deepEqual(await texts({ featureGates: 'WinDSR=true,AllBeta=true' }), [
      `--feature-gates: WinDSR, AllBeta have ${only}`,
    ]);
    assert.deepEqual(await texts({ featureGates: 'AllowServiceExternalIPs=false,WatchListClient=true' }), []);
    assert.deepEqual(await texts({ config: file, featureGates: 'AllowServiceExternalIPs=true' }), [
      `--config: featureGates: WinDSR has ${only}`,
      '--feature-gates has no effect with --config: use featureGates in the file',
    ]);
    assert.equal(
      (await loadConfig({ config: file, featureGates: '' })).config.featureGates.AllowServiceExternalIPs,
      false,
    );
  });
});
