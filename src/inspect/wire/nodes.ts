/** The answer of `kubectl slicewire QUESTION --all-nodes`: the answers of the agents of all nodes. */
import * as z from 'zod';
import { explanationSchema } from './explanation.ts';
import { exposureSchema } from './exposure.ts';
import { historySchema } from './history.ts';
import { answer, moment } from './schema-common.ts';
import { statusSchema } from './status.ts';
import { verificationSchema } from './verification.ts';

const NODE_QUESTIONS = ['status', 'explain', 'verify', 'history', 'exposure'] as const;

const anyAnswer = z.union([statusSchema, explanationSchema, verificationSchema, historySchema, exposureSchema]);

export const nodesSchema = z.object({
  ...answer('Nodes'),
  question: z.enum(NODE_QUESTIONS),
  at: moment.describe('when the command asked'),
  summary: z.string().describe('one sentence: how many nodes agree, and the others with the reason'),
  nodes: z
    .record(
      z.string(),
      z.object({
        pod: z.string().describe('namespace/name of the agent'),
        answer: anyAnswer.nullable().describe('in the form of the question; null when there is none'),
        failure: z.string().describe('why there is no answer; "" when there is one'),
        behind: z.string().describe('why the node may be behind the others, such as "stale for 40 s because …"; or ""'),
      }),
    )
    .describe('by the name of the node'),
});

export type Nodes = z.infer<typeof nodesSchema>;
export type NodeQuestion = Nodes['question'];

/** What came from one node. */
export interface NodeOutcome<A> {
  /** The node's name; of a Pod without a node "Pod NAME". */
  readonly node: string;
  readonly pod: string;
  /** null: there is none, and `failure` says why. */
  readonly answer: A | null;
  readonly failure: string;
  /** The agent was asked, and refuses the question: it may not know the Service yet. */
  readonly isRefusal: boolean;
  /** Why the node may be behind the others; "" when nothing is known of that. */
  readonly behind: string;
}
