/** PromQL by the parser of Prometheus' own web interface: what a query asks for. */
import type { SyntaxNode, Tree } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

export interface Asked {
  /** Names of metrics, with the labels that the query matches them by. */
  readonly selectors: readonly { readonly metric: string; readonly labels: readonly string[] }[];
  /** Labels in `by`, `without`, `on`, `ignoring`, `group_left` and `group_right`. */
  readonly grouping: readonly string[];
}

/** Throws when it is no PromQL. */
export function askedBy(query: string): Asked {
  const tree: Tree = parser.parse(query);
  const selectors: { metric: string; labels: string[] }[] = [];
  const grouping: string[] = [];
  const textOf = ({ from, to }: SyntaxNode) => query.slice(from, to);
  tree.iterate({
    enter({ node, type }) {
      if (type.isError) throw new Error(`no PromQL at character ${node.from}: ${query}`);
      if (type.name === 'VectorSelector') {
        const name = node.getChild('Identifier');
        if (name === null) throw new Error(`a selector without the name of a metric: ${textOf(node)}`);
        const labels: string[] = [];
        for (const matcher of node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? []) {
          const label = matcher.getChild('LabelName');
          if (label !== null) labels.push(textOf(label));
        }
        selectors.push({ metric: textOf(name), labels });
      }
      if (type.name === 'GroupingLabels') grouping.push(...node.getChildren('LabelName').map(textOf));
    },
  });
  return { selectors, grouping };
}
