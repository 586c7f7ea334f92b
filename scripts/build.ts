/**
 * `npm run build`: one executable with everything in it, Node.js included, that starts without node_modules (Node.js's single
 * executable applications). It is tried out before this ends: its version, and a plan made of a sample.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { realCommands } from '../src/host/commands.ts';
import { mayChangeNetwork } from '../src/host/node-facts.ts';
import { bundle } from './bundle.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NEVER = new AbortController().signal;
const SAMPLE = `apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.1.11]}]
`;

const { values } = parseArgs({ options: { output: { type: 'string', default: join(ROOT, 'dist/slicewire') } } });
const folder = mkdtempSync(join(tmpdir(), 'slicewire-build-'));
try {
  mkdirSync(join(values.output, '..'), { recursive: true });
  await bundle('src/main.ts', join(folder, 'slicewire.mjs'));
  await assemble(join(folder, 'slicewire.mjs'), values.output);
  await tryOut(values.output);
  const megabytes = Math.round(statSync(values.output).size / 1e6);
  process.stdout.write(`built: ${values.output} (${megabytes} MB)\n`);
} finally {
  rmSync(folder, { recursive: true });
}

/** The bundle and the Node.js that runs this, in one file. */
async function assemble(main: string, output: string): Promise<void> {
  const config = join(folder, 'sea.json');
  writeFileSync(
    config,
    JSON.stringify({
      main,
      mainFormat: 'module',
      output,
      disableExperimentalSEAWarning: true,
      useCodeCache: true,
      // The agent is root: NODE_OPTIONS of its surroundings have no say in it.
      execArgvExtension: 'none',
    }),
  );
  await run(process.execPath, ['--build-sea', config]);
}

/** Throws when the executable does not do what it should. */
async function tryOut(output: string): Promise<void> {
  const version = await run(output, ['version']);
  if (!version.startsWith('slicewire ')) throw new Error(`${output} version: ${version}`);
  const help = await run(output, ['run', '--help']);
  if (!help.includes('--proxy-mode')) throw new Error(`${output} run --help: ${help}`);
  // A plan reads the kernel; where an image is built that is not allowed.
  if (!(await mayChangeNetwork())) return;
  const sample = join(folder, 'sample.yaml');
  writeFileSync(sample, SAMPLE);
  const plan = await run(output, ['plan', '--manifests', sample, '--output', 'json'], [0, 2]);
  const { steps } = JSON.parse(plan) as { steps: readonly { readonly key: string }[] };
  if (!steps.some(({ key }) => key.startsWith('IPv4 nat KUBE-SVC-'))) throw new Error(`${output} plan: ${plan}`);
}

async function run(file: string, args: readonly string[], statuses: readonly number[] = [0]): Promise<string> {
  const { exitCode, stdout, stderr } = await realCommands.run({ file, args }, NEVER);
  if (exitCode === undefined || !statuses.includes(exitCode)) {
    throw new Error(`${file} ${args.join(' ')} ended with ${exitCode}: ${stderr}${stdout}`);
  }
  return stdout;
}
