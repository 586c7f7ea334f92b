/** The inspection of a mode, made from the inspections of its families and its node. */

import type { Family } from '../../base/address.ts';
import { inPortions } from '../../base/portions.ts';
import { becauseOf, type Unlike } from '../reconcile/compare.ts';
import type {
  Comparison,
  FamilyInspection,
  LastWriter,
  ModeInspection,
  NodeInspection,
  ObjectDifference,
} from './inspection.ts';

/** A family or the node of a mode. A predecessor's has no inspection. */
interface Inspected<I> {
  readonly inspection?: I | undefined;
}

/** The families in their order. Families without an inspection are left out. */
export function inspectionOf(
  families: readonly (Inspected<FamilyInspection> & { readonly family: Family })[],
  node: Inspected<NodeInspection>,
): ModeInspection {
  // Read at each call: a family makes its inspection after it was handed over.
  const all = () => families.flatMap(({ inspection }) => inspection ?? []);
  return {
    believed: () => all().flatMap((one) => one.believed() ?? []),
    desired: () => all().map((one) => one.desired()),
    async isCertain() {
      for (const one of all()) if (!(await one.isCertain())) return false;
      return true;
    },
    async read(signal, focus) {
      const views = [];
      for (const one of all()) views.push(await one.read(signal, focus));
      return views;
    },
    async compare(signal, setAside = new Set()): Promise<Comparison> {
      // Read first: another program may write during the reading.
      const lastWriter = await lastWriterOf(all());
      const parts: PartComparison[] = [];
      const of = { setAside, signal };
      if (node.inspection !== undefined) parts.push(await compareOnce(node.inspection, { ...of, family: undefined }));
      for (const { family, inspection } of families) {
        if (inspection !== undefined) parts.push(await compareFamily(inspection, { ...of, family }));
      }
      const compared = parts.reduce((sum, part) => sum + part.compared, 0);
      return { differences: parts.flatMap(({ differences }) => differences), compared, lastWriter };
    },
    lastWriter: () => lastWriterOf(all()),
    async remembered(family, memories, client) {
      const index = families.findIndex((mode) => mode.family === family);
      return (await families[index]?.inspection?.remembered(memories, client)) ?? new Map();
    },
  };
}

interface PartComparison {
  readonly differences: readonly ObjectDifference[];
  readonly compared: number;
}

interface CompareOptions {
  readonly family: Family | undefined;
  readonly setAside: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

/**
 * A write of ours during a reading makes objects differ that do not. After so many attempts the last one counts: another program changed
 * the objects that differ in the same way in all attempts, and we were about to write the others. An object that we write in each
 * attempt, such as a Service whose endpoints change all the time, differs in another way each time.
 */
const MAX_ATTEMPTS = 3;

async function compareFamily(inspection: FamilyInspection, options: CompareOptions): Promise<PartComparison> {
  let lasting: ReadonlySet<string> | undefined;
  for (let attempt = 1; ; attempt++) {
    const { writes } = inspection;
    const part = await compareOnce(inspection, options);
    if (part.differences.length === 0 || inspection.writes === writes) return part;
    const objects = new Set(part.differences.map(signatureOf));
    lasting = lasting === undefined ? objects : objects.intersection(lasting);
    if (attempt === MAX_ATTEMPTS) return { ...part, differences: part.differences.map(withCause(lasting)) };
  }
}

function withCause(lasting: ReadonlySet<string>): (difference: ObjectDifference) => ObjectDifference {
  return (difference) =>
    difference.because === undefined && !lasting.has(signatureOf(difference))
      ? { ...difference, because: 'not written yet' }
      : difference;
}

/** The object and how it differs. */
function signatureOf({ object, kind, wanted, found }: ObjectDifference): string {
  return JSON.stringify([object, kind, wanted, found]);
}

async function compareOnce(
  inspection: NodeInspection,
  { family, setAside, signal }: CompareOptions,
): Promise<PartComparison> {
  const differences: ObjectDifference[] = [];
  let compared = 0;
  const add = (unlike: Unlike | undefined) => {
    compared += 1;
    if (unlike === undefined) return;
    const { object, owner, kind, wanted, found, isRepaired } = unlike;
    const because = becauseOf(unlike, family, setAside);
    differences.push({ family, object, owner, kind, wanted, found, because, isRepaired });
  };
  await inPortions(await inspection.compared(signal), add, signal);
  return { differences, compared };
}

/** The families share the ruleset, so the first answer counts. */
async function lastWriterOf(all: readonly FamilyInspection[]): Promise<LastWriter | undefined> {
  for (const one of all) {
    const writer = await one.lastWriter();
    if (writer !== undefined) return writer;
  }
  return undefined;
}
