/** Manifests: a text of YAML or JSON, its objects, and their admission. */
import { type Problem, readObjects, type Value } from '../../../src/cluster/documents/documents.ts';
import { admitted } from '../../../src/cluster/source/manifests/admission.ts';
import { type DecodedManifest, KINDS } from '../../../src/cluster/source/manifests/kinds.ts';
import { documentFaults, FileDraft } from '../../../src/cluster/source/manifests/manifest-store.ts';
import { NODE_PORTS } from '../../../src/proxy/model/port-range.ts';
import { corpusFiles, objectTexts } from '../corpus/read.ts';
import { mutateJson } from '../mutate/json.ts';
import { mutateText } from '../mutate/text.ts';
import type { Random } from '../random.ts';
import { soundEndpoints, soundEvent, soundFaults, soundPod, soundSelecting, soundZonedNode } from '../sound/objects.ts';
import { soundNumber, soundPrototypes } from '../sound/text.ts';
import type { Target } from '../target.ts';

const OBJECTS = objectTexts();

/** Text, or one time in four the JSON of an object. */
function mutate(random: Random, seeds: readonly Buffer[]): Buffer {
  return random.once(4) ? mutateJson(random, OBJECTS) : mutateText(random, seeds);
}

/** The values and problems of a text. */
export function partsOf(text: string, mayRepeat: boolean): { values: Value[]; problems: Problem[] } {
  const values: Value[] = [];
  const problems: Problem[] = [];
  for (const part of readObjects(text, mayRepeat)) {
    if (part.kind === 'value') values.push(part);
    else problems.push(part);
  }
  for (const { line, column } of problems) {
    soundNumber(line, 'line', 1, 1e6);
    soundNumber(column, 'column', 1, 1e6);
  }
  return { values, problems };
}

function soundHeld({ event, input }: DecodedManifest): void {
  soundEvent(event);
  if (input?.value === undefined) return;
  if (input.kind === 'Pod') soundPod(input.value);
  else if (input.kind === 'Service') soundSelecting(input.value);
  else if (input.kind === 'Node') soundZonedNode(input.value);
  else soundEndpoints(input.value);
}

export const yaml: Target = {
  name: 'yaml',
  declared: [],
  seeds: corpusFiles('yaml'),
  mutate,
  run(input) {
    const { values, problems } = partsOf(input.toString(), false);
    soundFaults(documentFaults({ file: 'a.yaml', stays: '' }, { problems, problemCount: problems.length }));
    const draft = new FileDraft('a.yaml', (kind, key, object) =>
      admitted(KINDS[kind].decode(object, key), { kind, key, object, nodePorts: NODE_PORTS }),
    );
    draft.add(values);
    soundFaults(draft.faults);
    for (const held of draft.objects.values()) soundHeld(held);
    soundPrototypes();
  },
};
