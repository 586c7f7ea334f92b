/**
 * docs/reference/schemas: the forms of the answers as JSON Schema, made from those that the program checks answers with.
 *
 *   node scripts/answer-schemas.ts      writes the files; a test compares them with the source
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { drainedSchema } from '../src/inspect/wire/drained.ts';
import { explanationSchema } from '../src/inspect/wire/explanation.ts';
import { exposureSchema } from '../src/inspect/wire/exposure.ts';
import { fleetLiveSchema, fleetProgrammedSchema } from '../src/inspect/wire/fleet.ts';
import { historySchema } from '../src/inspect/wire/history.ts';
import { liveSchema } from '../src/inspect/wire/live.ts';
import { nodesSchema } from '../src/inspect/wire/nodes.ts';
import { programmedSchema } from '../src/inspect/wire/programmed.ts';
import { problemSchema } from '../src/inspect/wire/read.ts';
import { replaySchema } from '../src/inspect/wire/replay.ts';
import { serviceSchema, servicesSchema } from '../src/inspect/wire/services.ts';
import { shadowSchema } from '../src/inspect/wire/shadow.ts';
import { statusSchema } from '../src/inspect/wire/status.ts';
import { verificationSchema } from '../src/inspect/wire/verification.ts';

const FOLDER = fileURLToPath(new URL('../docs/reference/schemas', import.meta.url));

const SCHEMAS = {
  explanation: explanationSchema,
  verification: verificationSchema,
  status: statusSchema,
  shadow: shadowSchema,
  history: historySchema,
  replay: replaySchema,
  live: liveSchema,
  services: servicesSchema,
  service: serviceSchema,
  exposure: exposureSchema,
  nodes: nodesSchema,
  programmed: programmedSchema,
  drained: drainedSchema,
  'fleet-programmed': fleetProgrammedSchema,
  'fleet-live': fleetLiveSchema,
  problem: problemSchema,
} as const;

/** The text of each file, by its name. */
export function schemaTexts(): Map<string, string> {
  return new Map(
    Object.entries(SCHEMAS).map(([name, schema]) => {
      const json = z.toJSONSchema(schema, { override: ({ jsonSchema }) => withoutPattern(jsonSchema) });
      return [`${name}.json`, `${JSON.stringify(json, undefined, 2)}\n`];
    }),
  );
}

/** zod writes a moment's pattern beside its format; fields may be added within a version. */
function withoutPattern(schema: { pattern?: string; format?: string; additionalProperties?: unknown }): void {
  if (schema.format !== undefined) delete schema.pattern;
  if (schema.additionalProperties === false) delete schema.additionalProperties;
}

if (import.meta.main) {
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, text] of schemaTexts()) writeFileSync(join(FOLDER, name), text);
}
