/** The measured part of docs/fleet.md, from docs/fleet.json. `node test/fleet/roll-out/main.ts` writes both. Pure. */
import { table } from '../../bench/text.ts';

export interface Measured {
  readonly ranAt: string;
  readonly machine: string;
  readonly nodes: number;
  readonly pods: number;
  readonly surge: number;
  /** Requests a second. */
  readonly rate: number;
  readonly variants: readonly MeasuredVariant[];
}

export interface MeasuredVariant {
  readonly name: string;
  readonly requests: number;
  readonly failed: number;
  /** Seconds. */
  readonly seconds: number;
  /** Seconds that a hook took: half of them, and the longest. */
  readonly wait: { readonly half: number; readonly most: number };
  /** Hooks of the fleet that had no yes. */
  readonly without: number;
}

const COMMAND = 'node test/fleet/roll-out/main.ts';
const BEGIN = '<!-- begin: written by test/fleet/roll-out/main.ts -->';
const END = '<!-- end -->';

/** The page with these figures in the place of those that it has. Throws where it has no place for them. */
export function withFigures(page: string, measured: Measured): string {
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) throw new Error(`docs/fleet.md lacks ${BEGIN} or ${END}`);
  return `${before}${BEGIN}\n${figures(measured)}\n${END}${after}`;
}

function figures({ ranAt, machine, nodes, pods, surge, rate, variants }: Measured): string {
  const rows = variants.map(({ name, requests, failed, seconds, wait }) => [
    name,
    `${failed} of ${requests}`,
    `${seconds.toFixed(1)} s`,
    `${wait.half.toFixed(1)} s, ${wait.most.toFixed(1)} s`,
  ]);
  return [
    `Measured on ${ranAt.slice(0, 10)} by \`${COMMAND}\`. Machine: ${machine}, with all nodes on it.`,
    `${pods} Pods on ${nodes} nodes are replaced, ${surge} at a time (\`maxSurge: ${surge}\`, \`maxUnavailable: 0\`).`,
    `Clients on every node, with the network of the node and in Pods, send up to ${rate} requests a second to the cluster IP.`,
    'The agents gather changes for a second, as they do by default (`minSyncPeriod`).',
    'The waits of the command include the start of its process.',
    '',
    table(['before SIGTERM', 'failed requests', 'time of the roll-out', 'wait of a Pod: half within, longest'], rows),
  ].join('\n');
}
