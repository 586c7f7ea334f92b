/**
 * The metrics of Services (--service-metrics) in Prometheus' form. They have many series, so their text is made without the registry,
 * Service by Service, and without an object for each series.
 */

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
    'Endpoints of a port of a Service, used by this node or not, by reason; a series that would be 0 is left out, but for used and ready (--service-metrics)',
  ],
  slicewire_service_series: [
    'gauge',
    'Series of the metrics slicewire_service_…; left out: those of the Services beyond the bound (--service-metrics)',
  ],
} as const satisfies Readonly<Record<string, readonly ['gauge' | 'counter', help: string]>>;

export type ServiceMetric = keyof typeof SERVICE_METRICS;

/** The text between the braces. An empty label is left out: it means the same in Prometheus' data model. */
export function labelsText(labels: Readonly<Record<string, string>>): string {
  let text = '';
  for (const name in labels) {
    const value = labels[name] ?? '';
    if (value === '') continue;
    text += `${text === '' ? '' : ','}${name}="${/[\\"\n]/.test(value) ? escaped(value) : value}"`;
  }
  return text;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

/** The text of these metrics, line by line. */
export class SeriesText {
  readonly #lines = new Map<ServiceMetric, string>();
  #count = 0;

  /** The number of series so far. */
  get count(): number {
    return this.#count;
  }

  /** `labels`: as `labelsText` writes them. */
  add(name: ServiceMetric, labels: string, value: number): void {
    this.#lines.set(name, `${this.#lines.get(name) ?? ''}${name}{${labels}} ${value}\n`);
    this.#count += 1;
  }

  /** In Prometheus' form; a metric without series is left out. */
  get text(): string {
    let text = '';
    for (const [name, lines] of this.#lines) {
      const [type, help] = SERVICE_METRICS[name];
      text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines}`;
    }
    return text;
  }
}
