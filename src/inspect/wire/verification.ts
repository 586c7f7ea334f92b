/** The answer of `slicewire verify`. */
import * as z from 'zod';
import { answer, answeredBy, family } from './schema-common.ts';

export const differenceSchema = z.object({
  family: family.nullable(),
  object: z.string().describe('the kernel object'),
  service: z.string().describe('namespace/name of its Service; "" when it is shared or foreign'),
  kind: z.enum(['missing', 'changed', 'foreign', 'order']),
  wanted: z.array(z.string()).describe('lines that are desired and not installed'),
  found: z.array(z.string()).describe('lines that are installed and not desired'),
  because: z.string().describe('why it may differ without a fault; "" when another program wrote'),
  repaired: z.boolean().describe('slicewire repairs it after its next reading of the kernel'),
});

export const verificationSchema = z.object({
  ...answer('Verification'),
  by: answeredBy,
  equal: z.boolean(),
  compared: z.number().int().describe('number of kernel objects that were compared'),
  differences: z.array(differenceSchema).describe('the first 1000'),
  count: z.number().int().describe('number of all differences'),
  lastWriter: z
    .object({ pid: z.number().int(), name: z.string(), isSlicewire: z.boolean() })
    .nullable()
    .describe("the program that changed the kernel's nft ruleset last; null where the kernel does not know"),
});

export type Verification = z.infer<typeof verificationSchema>;
export type VerifiedDifference = z.infer<typeof differenceSchema>;
