/**
 * docs/plan.svg: a terminal with the output of `slicewire plan` after one endpoint was replaced and one Service was added. The
 * output is real: an agent syncs manifests of the demo in a network namespace of its own, they change, and plan runs there.
 *
 *   node scripts/plan-picture.ts      writes the picture; as root
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { outsideYaml, servicesYaml, sliceYaml } from '../src/cli/demo/manifests.ts';
import { realCommands } from '../src/kernel/commands.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Flags that make the output the same on each machine: its name, and no settings of its conntrack. */
const FLAGS = [
  '--mode=nftables',
  ...['--hostname-override=elsewhere', '--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'],
  '--conntrack-tcp-timeout-close-wait=0',
];
const COMMAND = 'slicewire plan --mode=nftables --manifests web/';

const LINE = 20;
const CHARACTER = 7.85;
const PADDING = 20;
const BAR = 32;
/** The colour of a line by its first characters that are no spaces. */
const COLOURS: Readonly<Record<string, string>> = { $: '#f9fafb', '+': '#4ade80', '-': '#f87171', '~': '#fbbf24' };

/** The output of `plan` after an endpoint of `web` was replaced and `outside` was added. */
export async function realOutput(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'slicewire-plan-'));
  try {
    const manifests = join(folder, 'web');
    mkdirSync(manifests);
    writeFileSync(join(manifests, 'services.yaml'), servicesYaml());
    writeFileSync(join(manifests, 'slice.yaml'), sliceYaml([1, 2]));
    const changes = { 'slice.yaml': sliceYaml([1, 3]), 'outside.yaml': outsideYaml() };
    for (const [name, text] of Object.entries(changes)) writeFileSync(join(folder, name), text);
    const slicewire = `"${process.execPath}" "${ROOT}src/main.ts"`;
    const flags = `--manifests "${manifests}" ${FLAGS.join(' ')}`;
    const steps = [
      `${slicewire} run --once ${flags} 2>&1`,
      `cp "${folder}"/*.yaml "${manifests}"`,
      `echo '${COMMAND}'; status=0; ${slicewire} plan ${flags} || status=$?; test $status = 2`,
    ];
    const args = ['--net', 'sh', '-c', `set -eu; ${steps.join('; ')}`];
    const { exitCode, stdout, stderr } = await realCommands.run(
      { file: 'unshare', args },
      new AbortController().signal,
    );
    if (exitCode !== 0) throw new Error(`plan did not end with 2 (changes): ${stdout}${stderr}`);
    return `$ ${stdout.slice(stdout.indexOf(COMMAND)).trimEnd()}`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The text as the SVG of a terminal. */
export function terminalPicture(text: string): string {
  const lines = text.split('\n');
  const longest = Math.max(...lines.map((line) => line.length));
  const [width, height] = [Math.ceil(longest * CHARACTER) + 2 * PADDING, BAR + lines.length * LINE + PADDING];
  const escaped = (line: string) => line.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const dots = ['#f87171', '#fbbf24', '#4ade80'].map(
    (fill, i) => `<circle cx="${20 + 18 * i}" cy="17" r="5" fill="${fill}"/>`,
  );
  const rows = lines.map((line, i) => {
    const fill = COLOURS[line.trim().charAt(0)] ?? '#d1d5db';
    return `<text x="${PADDING}" y="${BAR + (i + 1) * LINE}" fill="${fill}" xml:space="preserve">${escaped(line)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    '<title>slicewire plan prints what it would change, and writes nothing</title>',
    '<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}</style>',
    `<rect width="${width}" height="${height}" rx="8" fill="#111827"/>`,
    ...dots,
    ...rows,
    '</svg>',
    '',
  ].join('\n');
}

if (import.meta.main) writeFileSync(join(ROOT, 'docs/plan.svg'), terminalPicture(await realOutput()));
