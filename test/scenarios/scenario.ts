/** Reads a scenario: a file of manifests over time. `== text` begins a step; `- Kind name` in it removes an object; the rest is YAML. */
import { objectsOf } from '../helpers/cluster/documents/documents.ts';

export interface ScenarioStep {
  readonly title: string;
  readonly objects: readonly object[];
  readonly removed: readonly { readonly kind: 'Service' | 'EndpointSlice'; readonly key: string }[];
}

export function readScenario(text: string): ScenarioStep[] {
  return text
    .split(/^== /m)
    .slice(1)
    .map((part) => {
      const [title = '', ...lines] = part.split('\n');
      const removals = lines.filter((line) => /^- (Service|EndpointSlice) /.test(line));
      const yaml = lines.filter((line) => !removals.includes(line)).join('\n');
      return {
        title: title.trim(),
        objects: objectsOf(yaml),
        removed: removals.map((line) => {
          const [, kind, name] = line.split(' ');
          return { kind: kind as 'Service' | 'EndpointSlice', key: `default/${name}` };
        }),
      };
    });
}
