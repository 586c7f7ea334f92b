/**
 * `npm run test:rivals -- --kube-proxy PATH [MODE…]`: the conformance stories with real packets through a real kube-proxy. Each packet must end
 * as in slicewire, whose own tests send the same ones, or the difference has a reason. IPVS mode runs in the virtual machine where this
 * kernel has none; it has about a third of the stories there, and all with --all. Ends with 0 when no difference is without a reason.
 */
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { FAMILIES } from '../../src/base/address.ts';
import { MODE_NAMES, type ModeName } from '../../src/proxy/model/modes.ts';
import { kubeProxyVersion } from '../bench/kube-proxy.ts';
import { measuredNow } from '../reliability/machine.ts';
import { recordPart } from '../reliability/results.ts';
import { runThere } from '../vm/run-there.ts';
import type { StoryResult } from './kube-proxy-stories.ts';
import { judged, lineOf, MARK } from './report.ts';

const INSIDE = fileURLToPath(new URL('./inside.ts', import.meta.url));
const print = (line: string) => process.stdout.write(`${line}\n`);

const { words, values } = commandLine({
  command: 'npm run test:rivals',
  about:
    'Sends the packets of the conformance stories through a real kube-proxy. Ends with 0 when every difference has a reason.',
  words: { name: 'MODE', known: MODE_NAMES },
  options: {
    'kube-proxy': { type: 'string', help: 'path of kube-proxy', value: 'PATH' },
    all: { type: 'boolean', help: 'all stories in IPVS mode, too' },
    record: { type: 'boolean', help: 'writes the counts to docs/reliability.json and docs/reliability.md' },
    family: { type: 'string', help: 'one family alone', value: 'IPv4|IPv6' },
    only: { type: 'string', help: 'these stories alone, by their ids', value: 'ID,ID…' },
  },
});
const file = values['kube-proxy'];
if (file === undefined) throw new Error('--kube-proxy names the program');
const families = values.family === undefined ? FAMILIES : FAMILIES.filter((family) => family === values.family);
if (families.length === 0) throw new Error(`--family ${values.family}: one of ${FAMILIES.join(', ')} is needed`);
if (values.record === true && (values.only !== undefined || values.family !== undefined))
  throw new Error('--record is for a whole mode: without --only and --family');
const version = await kubeProxyVersion(file);
print(`kube-proxy ${version}`);
// An early end ends the machine too.
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
let wrong = 0;
const rows: string[][] = [];
for (const mode of (words.length === 0 ? MODE_NAMES : words) as ModeName[]) {
  const results: StoryResult[] = [];
  const needsIpvs = mode === 'ipvs';
  const which = values.only ?? (!needsIpvs || values.all === true ? 'all' : 'chosen');
  const { status, said } = await runThere<StoryResult>({
    ...{ args: [INSIDE, file, mode, which, ...families], mark: MARK, needsIpvs, signal: stop.signal },
    onResult: (result) => {
      results.push(result);
      print(lineOf(mode, result));
    },
  });
  if (status !== 0) throw new Error(`the stories of ${mode} mode ended with status ${status}:\n${said.join('\n')}`);
  const found = judged(mode, results);
  for (const line of found.lines) print(line);
  wrong += found.wrong;
  const { told, alike, named, unnamed } = found.counts;
  rows.push([mode, which, `${told}`, `${alike}`, `${named}`, `${unnamed}`]);
}
if (values.record === true) {
  recordPart('rivals', {
    ...measuredNow(),
    command: ['npm run test:rivals', ...(words.length === 0 ? [] : ['--', ...words])].join(' '),
    text: [`The rival was kube-proxy ${version}.`],
    head: ['mode', 'stories', 'told', 'end as in slicewire', 'otherwise, for a reason', 'otherwise, without one'],
    rows,
  });
}
process.exitCode = wrong === 0 ? 0 : 1;
