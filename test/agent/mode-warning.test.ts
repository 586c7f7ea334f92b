/** A mode that is auto, or that nobody names: what it means for the other flags, what is written into a file, and what people are told. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { emitModeWarning, warnOfMode } from '../../src/agent/choose-mode.ts';
import { type ChooseMode, loadConfig } from '../../src/agent/load-config.ts';
import type { Config } from '../../src/config/config.ts';
import { fileText } from '../../src/config/config-file.ts';
import type { Flags } from '../../src/config/flags.ts';
import { MODE_NAMES } from '../../src/proxy/model/modes.ts';
import { FLAGS as FLAG_ROWS } from '../messages/flags.ts';
import { messageIn, problemIn } from '../messages/row.ts';

const FLAGS = { mode: 'auto', manifests: '/m', nftablesMasqueradeBit: '5', iptablesMasqueradeBit: '3' };

const chooses =
  (mode: Config['mode']): ChooseMode =>
  () =>
    Promise.resolve({ mode, why: `${mode} stands` });
const never: ChooseMode = () => assert.fail('nothing is to be chosen');
const configOf = async (flags: Flags, choose?: ChooseMode) => (await loadConfig(flags, undefined, choose)).config;

describe('auto', () => {
  it('is the configuration of the mode that is chosen', async () => {
    for (const mode of MODE_NAMES) {
      const config = await configOf(FLAGS, chooses(mode));
      const named = await configOf({ ...FLAGS, mode }, never);
      assert.deepEqual(config, { ...named, modeChoice: { by: 'auto', why: `${mode} stands` } });
    }
    const { masqueradeBit, nodePortAddresses } = await configOf(FLAGS, chooses('nftables'));
    assert.deepEqual([masqueradeBit, nodePortAddresses.primary], [5, 'known']);
  });

  it('is a word for --proxy-mode too, and may stand beside itself', async () => {
    const { mode } = await configOf({ proxyMode: 'auto', mode: 'auto', manifests: '/m' }, chooses('ipvs'));
    assert.equal(mode, 'ipvs');
  });

  it('has the faults of each mode that may be chosen, each once', async () => {
    const wrong = {
      mode: 'auto',
      manifests: '',
      nftablesSyncPeriod: 'x',
      ipvsScheduler: 'r r',
      iptablesSyncPeriod: 'y',
    };
    const DURATION = problemIn(FLAG_ROWS, '--iptables-sync-period=30');
    const faults = [
      messageIn(FLAG_ROWS, '--manifests=:'),
      `--iptables-sync-period=y: ${DURATION}`,
      `--ipvs-scheduler=r r: ${problemIn(FLAG_ROWS, '--ipvs-scheduler=Round Robin')}`,
      `--nftables-sync-period=x: ${DURATION}`,
    ];
    await assert.rejects(configOf(wrong, never), { message: faults.join('; ') });
  });

  it('stays auto in a written file, with the sections of all modes', async () => {
    const { config, others } = await loadConfig({ ...FLAGS, ipvsMinSyncPeriod: '7s', writeConfigTo: 'f' });
    const file = fileText(config, others);
    assert.match(file, /^mode: auto$/m);
    for (const [section, line] of [
      ['iptables', 'masqueradeBit: 3'],
      ['nftables', 'masqueradeBit: 5'],
      ['ipvs', 'minSyncPeriod: 7s'],
    ]) {
      assert.match(file, new RegExp(`^${section}:\n(  .*\n)*  ${line}$`, 'm'));
    }
    const chosen = await configOf(FLAGS, chooses('ipvs'));
    assert.match(fileText(chosen), /^mode: ipvs$/m, '/configz says the mode in force');
  });
});

describe('a mode that nobody names', () => {
  const lines = async (flags: Flags, formerFlags?: Flags) => {
    const [config, former] = [await configOf(flags, chooses('nftables')), formerFlags && (await configOf(formerFlags))];
    const told: string[] = [];
    const line = (level: string) => (_: object, text: string) => told.push(`${level}: ${text.split('. ')[0]}`);
    warnOfMode(config, former, { info: line('info'), warn: line('warn') } as never);
    emitModeWarning(config, former, {
      emitNode: ({ type, reason, action, note }) => told.push(`${type} ${reason} ${action}: ${note.split('. ')[0]}`),
    });
    return told;
  };
  const NOT_SET = 'the mode is not set, so the agent works in iptables mode';

  it('is iptables, which the log and an event tell at the start', async () => {
    assert.deepEqual(await lines({ manifests: '/m' }), [
      `warn: ${NOT_SET}`,
      `Warning ModeNotSet StartKubeProxy: ${NOT_SET}`,
    ]);
    assert.deepEqual(
      await lines({ manifests: '/m', mode: '' }),
      await lines({ manifests: '/m' }),
      'an empty one is none',
    );
  });

  it('is told again only when it becomes so', async () => {
    assert.deepEqual(await lines({ manifests: '/m' }, { manifests: '/n' }), []);
    assert.equal((await lines({ manifests: '/m' }, { manifests: '/m', mode: 'ipvs' })).length, 2);
  });

  it('is not told of a mode that is named', async () => {
    for (const mode of MODE_NAMES) assert.deepEqual(await lines({ manifests: '/m', mode }), []);
  });

  it('has one line of the log where auto chose', async () => {
    const line = 'info: auto chose nftables mode, because nftables stands';
    assert.deepEqual(await lines({ manifests: '/m', mode: 'auto' }), [line]);
    assert.deepEqual(await lines({ manifests: '/m', mode: 'auto' }, { manifests: '/m', mode: 'auto' }), []);
  });
});
