/** Parts that the forms of answers share. A program reads `apiVersion` and `kind` first; fields are only added within a version. */
import * as z from 'zod';
import { MODE_NAMES } from '../../proxy/model/modes.ts';
import { API_VERSION } from './envelope.ts';

/** A moment: RFC 3339 in UTC with milliseconds. */
export const moment = z.iso.datetime({ precision: 3 });

export const family = z.enum(['IPv4', 'IPv6']);
export const protocol = z.enum(['TCP', 'UDP', 'SCTP']);
export const milliseconds = z.number().nonnegative();

/** The head of an answer. */
export function answer<K extends string>(kind: K) {
  return { apiVersion: z.literal(API_VERSION), kind: z.literal(kind) } as const;
}

/** The answerer: the agent that runs, a command that read the sources and the kernel, or a recording. */
export const answeredBy = z
  .object({
    who: z.enum(['agent', 'command', 'recording']),
    mode: z.enum(MODE_NAMES),
    modeReason: z.string().optional().describe('where the mode is auto: why the agent chose this one'),
    rules: z
      .literal('kube-proxy')
      .optional()
      .describe('whose rules the answer is about, where they are not those of slicewire'),
    node: z.string(),
    version: z.string(),
    at: moment,
  })
  .describe('who answered, and the moment that the answer is about');

export type AnsweredBy = z.infer<typeof answeredBy>;

/** A fault of an object. */
export const faultSchema = z.object({
  kind: z.string().describe('of the object, such as "Service"; "file" for a file of manifests'),
  object: z.string().describe('namespace/name, or a file'),
  field: z.string().describe('its path, such as "spec.ports[0].port"; "" for the whole object'),
  value: z.string(),
  problem: z.string(),
  effect: z
    .enum(['object set aside', 'part left out', 'default used', 'no effect here'])
    .describe('what follows from it'),
});

export type FaultForm = z.infer<typeof faultSchema>;
