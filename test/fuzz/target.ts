/** A decoder under attack: where its inputs come from, which errors it declares, and what may come out of it. */
import type { Random } from './random.ts';

/** A class of errors. */
export type ErrorClass = abstract new (...parameters: never[]) => Error;

export interface Target {
  readonly name: string;
  /** Errors that a bad input may cause; any other one is a crash. */
  readonly declared: readonly ErrorClass[];
  /** Well-formed inputs, recorded where there are records. */
  readonly seeds: readonly Buffer[];
  readonly mutate: (random: Random, seeds: readonly Buffer[]) => Buffer;
  /** Decodes the input and checks what comes out. Throws Unsound for an output outside the declared types. */
  readonly run: (input: Buffer) => void | Promise<void>;
  /** Ends what the target keeps open. */
  readonly close?: () => Promise<void>;
}

/** A decoder gave something outside its declared types. */
export class Unsound extends Error {
  readonly code = 'UNSOUND';
}

/** Throws Unsound. */
export function sure(holds: boolean, problem: () => string): asserts holds {
  if (!holds) throw new Unsound(problem());
}

/** `JSON.stringify`, short, also of values that have no JSON. */
export function shown(value: unknown): string {
  try {
    return (JSON.stringify(value) ?? String(value)).slice(0, 200);
  } catch {
    return typeof value;
  }
}
