/** The tables of commands and flags: they are whole, and what they say of defaults is true. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { COMMANDS, flagsOf, groupsOf } from '../../../src/cli/commands/command-table.ts';
import { AGENT_FLAGS } from '../../../src/config/agent-flags.ts';
import { CONTROLLER_FLAGS, controllerConfig } from '../../../src/config/controller-config.ts';
import { FIELDS } from '../../../src/config/file-fields.ts';
import { camel, type Flags } from '../../../src/config/flags.ts';
import { FLEET_FLAGS, fleetConfig } from '../../../src/config/fleet-config.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import { MODE_NAMES } from '../../../src/proxy/model/modes.ts';

const AGENT = AGENT_FLAGS.flatMap(({ flags }) => flags);
const commandOf = (name: string) => COMMANDS.find((command) => command.name === name) ?? assert.fail(name);

describe('the table of flags', () => {
  it('names each flag once in a command, with a text, or hides it', () => {
    for (const command of COMMANDS) {
      const names = flagsOf(command).map(({ name }) => name);
      assert.deepEqual(
        names.filter((name, i) => names.indexOf(name) !== i),
        [],
        command.name,
      );
      for (const { usage, name, help, isHidden = false } of flagsOf(command)) {
        assert.match(usage, /^(-[a-z], )?--[a-z][a-z0-9-]*( <[a-z]+>| \[[a-z]+\])?$/);
        assert.ok(isHidden === (help === '') && !/[.]$/.test(help), name);
      }
    }
  });

  it('has every flag that a file can set, and the ten that matter most', () => {
    const names = new Set(AGENT.map(({ name }) => name));
    const ofFiles = FIELDS.flatMap(({ flag }) => (flag === undefined ? [] : [flag]));
    // kube-proxy has no such flag: the file alone sets it.
    const inFilesAlone = ['nftables-masquerade-all'];
    assert.deepEqual(
      ofFiles.filter((flag) => !names.has(flag)),
      inFilesAlone,
    );
    const [most] = groupsOf(commandOf('run'));
    assert.deepEqual(
      most?.flags.map(({ name }) => name),
      ['mode', 'manifests', 'kubeconfig', 'hostname-override', 'nodeport-addresses', 'cluster-cidr'].concat(
        'healthz-bind-address',
        'metrics-bind-address',
        'v',
        'config',
      ),
    );
  });

  it('says defaults that are the defaults', () => {
    const defaults = AGENT.flatMap(({ name, initial }) => (initial === undefined ? [] : [[name, initial] as const]));
    assert.ok(defaults.length > 25);
    for (const mode of MODE_NAMES) {
      const without = configFromFlags({ mode, manifests: '/m', recordDir: '/r' });
      for (const [name, initial] of defaults) {
        // The flags of other modes mean nothing in this one.
        if (MODE_NAMES.some((other) => other !== mode && name.startsWith(`${other}-`)) || name === 'mode') continue;
        const given = configFromFlags({ mode, manifests: '/m', recordDir: '/r', [camel(name)]: initial });
        assert.deepEqual(given, without, `--${name}=${initial} in ${mode} mode`);
      }
    }
    assert.equal(configFromFlags({}).mode, AGENT.find(({ name }) => name === 'mode')?.initial);
  });

  it('says defaults of the controller that are the defaults', () => {
    const read = (flags: Flags) => JSON.stringify(controllerConfig(flags), lasting);
    const defaults = CONTROLLER_FLAGS.flatMap(({ flags }) => flags).filter(({ initial }) => initial !== undefined);
    assert.ok(defaults.length > 10, `${defaults.length} defaults`);
    for (const { name, initial } of defaults)
      assert.equal(read({ [camel(name)]: initial ?? '' }), read({}), `--${name}=${initial}`);
  });

  it('says defaults of the fleet that are the defaults', () => {
    const defaults = FLEET_FLAGS.flatMap(({ flags }) => flags).filter(({ initial }) => initial !== undefined);
    assert.ok(defaults.length > 5, `${defaults.length} defaults`);
    for (const { name, initial } of defaults)
      assert.deepEqual(fleetConfig({ [camel(name)]: initial ?? '' }), fleetConfig({}), `--${name}=${initial}`);
  });

  it('offers values that are taken', () => {
    assert.ok(AGENT.flatMap(({ values = [] }) => values).length > 10);
    for (const { name, values = [] } of AGENT) {
      for (const value of values) {
        const more = {
          BridgeInterface: { podBridgeInterface: 'br0' },
          InterfaceNamePrefix: { podInterfaceNamePrefix: 'veth' },
        };
        const rest = more[value as keyof typeof more] ?? { clusterCidr: '10.0.0.0/8' };
        assert.doesNotThrow(() => configFromFlags({ [camel(name)]: value, ...rest }), `--${name}=${value}`);
      }
    }
  });
});

/** The identity of a replica is another one each time, and a set has no JSON. */
function lasting(key: string, value: unknown): unknown {
  if (key === 'identity') return '';
  return value instanceof Set ? [...value] : value;
}
