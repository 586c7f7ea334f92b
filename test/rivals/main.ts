/**
 * `npm run test:rivals -- --kube-proxy PATH [MODE…]`: the conformance stories with real packets through a real kube-proxy. Each packet must end
 * as in slicewire, whose own tests send the same ones, or the difference has a reason. IPVS mode runs in virtual machines where this
 * kernel has none, one for each family; it has about a third of the stories there, and all with --all. Ends with 0 when no difference is
 * without a reason.
 */
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { FAMILIES, type Family } from '../../src/base/address.ts';
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
    only: { type: 'string', help: 'these stories alone, by their ids', value: 'ID,ID…' },
  },
});
const file = values['kube-proxy'];
if (file === undefined) throw new Error('--kube-proxy names the program');
if (values.record === true && (words.length > 0 || values.only !== undefined))
  throw new Error('--record is for a run of all modes: without MODE and --only');
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
  const tell = async (...families: readonly Family[]) => {
    const { status, said } = await runThere<StoryResult>({
      ...{ args: [INSIDE, file, mode, which, ...families], mark: MARK, needsIpvs, processors: 1, signal: stop.signal },
      onResult: (result) => {
        results.push(result);
        print(lineOf(mode, result));
      },
    });
    if (status !== 0) throw new Error(`the stories of ${mode} mode ended with status ${status}:\n${said.join('\n')}`);
  };
  // Two machines of one processor each do more than one of two.
  await (needsIpvs ? Promise.all(FAMILIES.map((family) => tell(family))) : tell(...FAMILIES));
  const found = judged(mode, results);
  for (const line of found.lines) print(line);
  wrong += found.wrong;
  const { told, alike, named, unnamed } = found.counts;
  rows.push([mode, which, `${told}`, `${alike}`, `${named}`, `${unnamed}`]);
}
if (values.record === true) {
  recordPart('rivals', {
    ...measuredNow(),
    command: 'npm run test:rivals',
    text: [`The rival was kube-proxy ${version}.`],
    head: ['mode', 'stories', 'told', 'end as in slicewire', 'otherwise, for a reason', 'otherwise, without one'],
    rows,
  });
}
process.exitCode = wrong === 0 ? 0 : 1;
