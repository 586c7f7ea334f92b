/** A Status: why the API server refused a request (k8s.io/apimachinery meta/v1). */
import { readStatusMessage } from './protobuf/kind.ts';

export interface ApiStatus {
  /** undefined where the answer has none. */
  readonly message: string | undefined;
  /** Machine-readable reasons: its own, and those of its causes. */
  readonly reasons: readonly string[];
  /** The resource that it is about, such as `namespaces`; undefined where the answer has none. */
  readonly about: string | undefined;
}

const NONE: ApiStatus = { message: undefined, reasons: [], about: undefined };

/** The Status of a body; one without message and reasons where the body is none: a proxy in front of the API server answered. */
export function readStatus(body: Buffer, inProtobuf: boolean): ApiStatus {
  try {
    return statusOf(inProtobuf ? readStatusMessage(body) : JSON.parse(body.toString()));
  } catch {
    return NONE;
  }
}

/** The Status in a value of any form. */
export function statusOf(value: unknown): ApiStatus {
  const status = fieldsOf(value);
  const { causes, kind } = fieldsOf(status.details);
  const all = [status, ...(Array.isArray(causes) ? causes.map(fieldsOf) : [])];
  const { message } = status;
  return {
    message: typeof message === 'string' ? message : undefined,
    reasons: all.map(({ reason }) => reason).filter((reason) => typeof reason === 'string'),
    about: typeof kind === 'string' ? kind : undefined,
  };
}

/** The fields of an object; none of any other value. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
