/** All suites, by the subject that Kubernetes gives them. */
import type { Suite } from './jig.ts';
import { basics } from './suites/basics.ts';

export const SUITES: Readonly<Record<string, Suite>> = { Services: basics };

/** They stop agents or the API server. */
export const DISRUPTIVE: Readonly<Record<string, Suite>> = {};
