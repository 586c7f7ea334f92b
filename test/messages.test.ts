/**
 * Every message that a user can cause, in full: the input, and its message. The tables are in `messages/`, an array for each kind of
 * input; a new message is a new row. The messages come from the code that reads the input.
 */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { loadConfig } from '../src/agent/load-config.ts';
import type { Address } from '../src/base/address.ts';
import { goArguments } from '../src/cli/command-line.ts';
import { loadCredentials } from '../src/cluster/api/credentials.ts';
import { objectKey } from '../src/cluster/api/decode/checks.ts';
import { decodeNode } from '../src/cluster/api/decode/node.ts';
import { decodeService, decodeServiceCidr } from '../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../src/cluster/api/decode/slice.ts';
import { ManifestStore } from '../src/cluster/source/manifests/manifest-store.ts';
import { NodeGuard } from '../src/cluster/source/manifests/node-guard.ts';
import { controllerConfig } from '../src/config/controller-config.ts';
import { fleetConfig } from '../src/config/fleet-config.ts';
import { WrongQuestion } from '../src/inspect/wire/envelope.ts';
import type { SourceEvent } from '../src/proxy/model/events.ts';
import { faultText } from '../src/proxy/model/objects.ts';
import { slicewire } from './helpers/cli/slicewire.ts';
import { draftOf, setText } from './helpers/cluster/documents/documents.ts';
import { service, slice } from './helpers/cluster/objects.ts';
import { askedNode } from './helpers/inspect/explain/asking.ts';
import { COMMAND_LINES } from './messages/command-lines.ts';
import { CONFIG_FILES } from './messages/config-files.ts';
import { CONTROLLER_FLAGS, FLAGS, FLEET_FLAGS } from './messages/flags.ts';
import { KUBECONFIGS } from './messages/kubeconfigs.ts';
import { MANIFESTS, NODE } from './messages/manifests.ts';
import { OBJECTS } from './messages/objects.ts';
import { type AskedWrongly, QUESTIONS } from './messages/questions.ts';
import type { Row } from './messages/row.ts';

/** With SHOW_MESSAGES, prints each message that differs, to be read and taken into its table. */
function rows<Input>(
  title: string,
  table: readonly Row<Input>[],
  messageOf: (input: Input) => Promise<string> | string,
): void {
  describe(title, () => {
    for (const { name, input, message } of table) {
      it(name, async () => {
        const found = await messageOf(input);
        if (process.env.SHOW_MESSAGES !== undefined && found !== message)
          process.stdout.write(`${JSON.stringify({ title, name, found })}\n`);
        assert.equal(found, message);
      });
    }
    it('has no name and no input twice', () => {
      assert.equal(new Set(table.map(({ name }) => name)).size, table.length);
      assert.equal(new Set(table.map(({ input }) => JSON.stringify(input))).size, table.length);
    });
  });
}

/** The message of a question about a node with a few Services, and the Pods `shop/web-1` and `shop/new`. */
async function messageOfQuestion({ from, to, knowsPods = false }: AskedWrongly): Promise<string> {
  const node = askedNode('nftables');
  const shop = (name: string, spec: Record<string, unknown>) => service({ name, namespace: 'shop', spec });
  const ports = [
    { name: 'http', port: 80 },
    { name: 'metrics', port: 9090 },
  ];
  node.rig.put(
    shop('web', { clusterIPs: ['10.96.0.10', 'fd00:96::10'], ports }),
    shop('cart', { clusterIP: '10.96.0.20', ports: [{ port: 80 }] }),
    shop('broken', { clusterIP: '10.96.0.30', ports: [{ port: 70_000 }] }),
    slice({ name: 'headless-1', namespace: 'shop', service: 'headless', endpoints: ['10.244.1.9'] }),
  );
  await node.rig.sync();
  const pods = {
    'shop/web-1': { addresses: ['10.244.1.11' as Address], nodeName: 'node' },
    'shop/new': { addresses: [], nodeName: '' },
  };
  try {
    await node.ask(from, to, knowsPods ? { pods } : {});
    return 'no message';
  } catch (error) {
    if (!(error instanceof WrongQuestion)) throw error;
    return error.message;
  }
}

/** The message of the error, or the notes of the configuration. */
async function messageOfLoad(
  load: () => Promise<{ readonly notes: readonly { readonly text: string }[] }>,
): Promise<string> {
  try {
    return (await load()).notes.map(({ text }) => text).join('\n');
  } catch (error) {
    return (error as Error).message;
  }
}

/** The faults of all events. */
function faultsOf(events: readonly SourceEvent[]): string {
  return events.flatMap((event) => ('faults' in event ? event.faults.map(faultText) : [])).join('\n');
}

const DECODERS: Readonly<Record<string, (object: unknown, key: string) => SourceEvent>> = {
  Service: decodeService,
  EndpointSlice: decodeSlice,
  Node: (object) => decodeNode(object, 'node-a'),
  ServiceCIDR: (object) => decodeServiceCidr(object, 'kubernetes'),
};

describe('messages', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-messages-'));
  });
  after(() => rm(folder, { recursive: true }));
  const file = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const anonymous = (text: string) => text.replaceAll(folder, 'DIR').replaceAll(process.cwd(), 'DIR');

  rows('of flags', FLAGS, (flags) => messageOfLoad(() => loadConfig(flags)));

  rows('of the flags of the controller', CONTROLLER_FLAGS, (flags) =>
    messageOfLoad(async () => {
      controllerConfig(flags);
      return { notes: [] };
    }),
  );

  rows('of the flags of the fleet', FLEET_FLAGS, (flags) =>
    messageOfLoad(async () => {
      fleetConfig(flags);
      return { notes: [] };
    }),
  );

  rows('of a configuration file', CONFIG_FILES, async ({ text, flags }) => {
    const config = await file('config.yaml', text);
    return anonymous(await messageOfLoad(() => loadConfig({ ...flags, config })));
  });

  rows('of a kubeconfig', KUBECONFIGS, async ({ text, ...rest }) => {
    const kubeconfig = text === undefined ? undefined : await file('kubeconfig', text);
    try {
      await loadCredentials({ master: undefined, kubeconfig, ...rest });
      return '';
    } catch (error) {
      return anonymous((error as Error).message);
    }
  });

  rows('of manifests', MANIFESTS, (texts) => {
    const events: SourceEvent[] = [];
    const emit = (event: SourceEvent) => events.push(event);
    const guard = new NodeGuard();
    guard.setInterfaces(NODE.addresses as readonly string[] as Address[]);
    const store = new ManifestStore('node-a', emit, { guard });
    for (const [i, text] of texts.entries()) {
      // The message of the last step counts.
      events.length = 0;
      if (text === undefined) store.unreadable('web.yaml', 'permission denied');
      else if (store.empties(draftOf(store, 'web.yaml', text))) store.emptied('web.yaml');
      else setText(store, i < 9 ? 'web.yaml' : `${i}.yaml`, text);
      for (const event of guard.judge(NODE.listeners)) emit(event);
      store.flush();
    }
    return faultsOf(events);
  });

  rows('of an object of the API server', OBJECTS, (object) => {
    const decode = DECODERS[(object as { kind: string }).kind];
    assert.ok(decode !== undefined);
    return faultsOf([decode(object, objectKey(object) ?? '')]);
  });

  rows('of a question', QUESTIONS, messageOfQuestion);

  rows('of the whole program', COMMAND_LINES, async (args) => {
    const program = slicewire(...args);
    return await new Promise<string>((resolve) => {
      execFile(program.file, program.args, (_, __, stderr) => resolve(anonymous(stderr.trim())));
    });
  });

  it('are many, and none is a message of a library', () => {
    const all = [
      FLAGS,
      CONTROLLER_FLAGS,
      FLEET_FLAGS,
      CONFIG_FILES,
      KUBECONFIGS,
      MANIFESTS,
      OBJECTS,
      COMMAND_LINES,
    ].flat();
    assert.ok(all.length >= 80, String(all.length));
    for (const { message } of all) {
      assert.notEqual(message, '');
      assert.doesNotMatch(message, /Invalid input|undefined|\[object|ENOENT|expected \w+, received|use-system-ca| {2}/);
    }
  });

  it('flags as Go writes them are read first', () => {
    assert.throws(() => goArguments(['--cleanup=perhaps']), { message: '--cleanup=perhaps: must be true or false' });
  });
});
