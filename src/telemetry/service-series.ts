/**
 * The metrics of Services (--service-metrics). They have many series, so their text is made apart from the registry: piece by piece, with
 * other work in between.
 */
import type { Labels, Sample } from './registry.ts';

export const SERVICE_METRICS = {
  slicewire_service_connections_total: [
    'counter',
    'Connections to a port of a Service, at all of its frontends (--service-metrics)',
  ],
  slicewire_service_bytes_total: [
    'counter',
    'Bytes from clients (in) and to clients (out) of a port of a Service (--service-metrics, IPVS mode)',
  ],
  slicewire_service_endpoints: [
    'gauge',
    'Endpoints of a port of a Service by whether this node uses them, and why; without zeros but for used ones that are ready (--service-metrics)',
  ],
  slicewire_service_series: [
    'gauge',
    'Series of the metrics slicewire_service_…; left out: those of the Services beyond the bound (--service-metrics)',
  ],
} as const satisfies Readonly<Record<string, readonly ['gauge' | 'counter', help: string]>>;

export type ServiceMetric = keyof typeof SERVICE_METRICS;

/** Samples that are written before other work has its turn: less than a millisecond. */
const PORTION = 500;

/** The text of a metric in Prometheus' form. `breath` lets other work run. */
export async function seriesText(
  name: ServiceMetric,
  samples: Iterable<Sample>,
  breath: () => Promise<void>,
): Promise<string> {
  const [type, help] = SERVICE_METRICS[name];
  let text = `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
  let written = 0;
  for (const { labels, value } of samples) {
    text += `${name}{${labelsText(labels)}} ${value}\n`;
    written += 1;
    if (written % PORTION === 0) await breath();
  }
  return text;
}

function labelsText(labels: Labels): string {
  let text = '';
  for (const [name, value] of Object.entries(labels)) {
    if (value === '') continue;
    text += `${text === '' ? '' : ','}${name}="${/[\\"\n]/.test(value) ? escaped(value) : value}"`;
  }
  return text;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
