/** ObjectMeta of k8s.io/apimachinery meta/v1, as far as it is used: `managedFields` and other labels are skipped. */
import {
  HEADLESS_LABEL,
  INITIAL_EVENTS_END,
  PROXY_NAME_LABEL,
  SERVICE_NAME_LABEL,
  TRIGGER_ANNOTATION,
} from '../../../proxy/model/labels.ts';
import { addEntry, asKey, milliseconds, seconds, type WireReader } from './wire.ts';

/** Labels and annotations that are read; all others are skipped. */
const LABELS = [PROXY_NAME_LABEL, HEADLESS_LABEL, SERVICE_NAME_LABEL].map(asKey);
const ANNOTATIONS = [TRIGGER_ANNOTATION, INITIAL_EVENTS_END].map(asKey);

export class ObjectMeta {
  name = '';
  namespace = '';
  uid = '';
  resourceVersion = '';
  labels: Record<string, string> | undefined = undefined;
  annotations: Record<string, string> | undefined = undefined;
  created: number | undefined = undefined;

  /** RFC 3339, to the second. */
  get creationTimestamp(): string | undefined {
    const { createdAt } = this;
    return createdAt === 0 ? undefined : new Date(createdAt).toISOString();
  }

  /** Milliseconds since 1970; 0 for a time that is none. */
  get createdAt(): number {
    return milliseconds(this.created);
  }
}

export function metaField(tag: number, meta: ObjectMeta, from: WireReader): void {
  if (tag === 1) meta.name = from.text();
  else if (tag === 3) meta.namespace = from.common();
  else if (tag === 5) meta.uid = from.text();
  else if (tag === 6) meta.resourceVersion = from.text();
  else if (tag === 8) meta.created = seconds(from);
  else if (tag === 11) meta.labels = addEntry(meta.labels, LABELS, from);
  else if (tag === 12) meta.annotations = addEntry(meta.annotations, ANNOTATIONS, from);
}
