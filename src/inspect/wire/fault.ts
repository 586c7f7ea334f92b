/** A fault of an object, in answers. */
import * as z from 'zod';

export const faultSchema = z.object({
  kind: z.string().describe('of the object, such as "Service"; "file": a file of manifests'),
  object: z.string().describe('namespace/name, or a file'),
  field: z.string().describe('its path, such as "spec.ports[0].port"; "" for the whole object'),
  value: z.string(),
  problem: z.string(),
  effect: z
    .enum(['object set aside', 'part left out', 'default used', 'no effect here'])
    .describe('what follows from it'),
});

export type FaultForm = z.infer<typeof faultSchema>;
