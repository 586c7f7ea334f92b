/** Lists of the fleet's page: nodes that are behind, one node, the slowest Services, faults and drift, modes and versions. */
import type { FleetLive, FleetNode } from '../../inspect/wire/fleet.ts';
import { clockTime, millisecondsText, numberText, percentText } from '../../inspect/wire/format.ts';
import { Card, Empty, Fact, State, Table, useFirst, Verbatim } from '../bits.tsx';
import {
  behindOf,
  kindsOf,
  lagOf,
  lagText,
  mixedText,
  noneBehindText,
  signOfNode,
  stateText,
  troubledOf,
  troubleText,
} from './fleet-text.ts';

/** Rows of a list at first. */
const FIRST_ROWS = 10;

interface NodesProps {
  readonly nodes: readonly FleetNode[];
  /** Milliseconds since the message that has the nodes. */
  readonly passed: number;
  readonly linkOf: (node: string) => string;
}

function NodeLink({ name, linkOf }: Pick<NodesProps, 'linkOf'> & { readonly name: string }) {
  return (
    <a href={linkOf(name)}>
      <Verbatim>{name}</Verbatim>
    </a>
  );
}

export function BehindList({ nodes, passed, linkOf }: NodesProps) {
  const behind = behindOf(nodes, passed);
  const [shown, more] = useFirst(behind, FIRST_ROWS);
  return (
    <Card title="Nodes that are not current" aside={numberText(behind.length)}>
      {behind.length === 0 && <Empty>{noneBehindText(nodes)}</Empty>}
      {behind.length > 0 && (
        <Table label="Nodes that are not current" heads={['Node', 'State', 'Since', 'Why']}>
          {shown.map((node) => (
            <tr key={node.name}>
              <td>
                <NodeLink name={node.name} linkOf={linkOf} />
              </td>
              <td>
                <State kind={signOfNode(node.state, lagOf(node, passed))}>{node.state}</State>
              </td>
              <td class="number">{node.lag > 0 ? lagText(lagOf(node, passed)) : '–'}</td>
              <td class="wide">
                <Verbatim>{node.why}</Verbatim>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {more}
    </Card>
  );
}

interface OneNodeProps {
  readonly name: string;
  /** undefined for a node that the fleet does not know. */
  readonly node: FleetNode | undefined;
  readonly passed: number;
  readonly onClose: () => void;
}

export function OneNode({ name, node, passed, onClose }: OneNodeProps) {
  return (
    <Card
      title="Chosen node"
      class="chosen"
      aside={
        <button type="button" class="theme" onClick={onClose}>
          Close
        </button>
      }
    >
      <p class="strong" data-testid="chosen">
        <Verbatim>{name}</Verbatim>
      </p>
      {node === undefined ? (
        <Empty>The fleet knows no such node, or knows it no longer.</Empty>
      ) : (
        <Facts {...{ node, passed }} />
      )}
    </Card>
  );
}

function Facts({ node, passed }: { readonly node: FleetNode; readonly passed: number }) {
  const lag = lagOf(node, passed);
  return (
    <dl class="pairs">
      <Fact name="State">
        <State kind={signOfNode(node.state, lag)}>{stateText(node.state, lag)}</State>
      </Fact>
      {node.why !== '' && (
        <Fact name="Why">
          <Verbatim>{node.why}</Verbatim>
        </Fact>
      )}
      <Fact name="Health">
        <Health node={node} />
      </Fact>
      <Fact name="Mode">{node.mode === '' ? 'not known' : <Verbatim>{node.mode}</Verbatim>}</Fact>
      <Fact name="Version">{node.version === '' ? 'not known' : <Verbatim>{node.version}</Verbatim>}</Fact>
      <Fact name="Services refused">{numberText(node.behind)}</Fact>
      <Fact name="Faults of objects">{numberText(node.faults)}</Fact>
      <Fact name="Changes by other programs">{numberText(node.drift)}</Fact>
    </dl>
  );
}

function Health({ node: { healthy, reasons } }: { readonly node: FleetNode }) {
  if (healthy) return <State kind="ok">healthy</State>;
  return (
    <State kind="bad">
      not healthy
      {reasons.map((reason) => (
        <span key={reason} class="reason">
          <Verbatim>{reason}</Verbatim>
        </span>
      ))}
    </State>
  );
}

export function Troubles({ nodes, linkOf }: Omit<NodesProps, 'passed'>) {
  const troubled = troubledOf(nodes);
  const [shown, more] = useFirst(troubled, FIRST_ROWS);
  return (
    <Card
      title="Faults and drift"
      aside={troubled.length > 0 ? <State kind="warn">{numberText(troubled.length)}</State> : undefined}
    >
      <p class="caption">{troubleText(nodes)}</p>
      {troubled.length > 0 && (
        <Table label="Nodes with faults or drift" heads={['Node', 'Health', 'Services refused', 'Faults', 'Drift']}>
          {shown.map((node) => (
            <tr key={node.name}>
              <td>
                <NodeLink name={node.name} linkOf={linkOf} />
              </td>
              <td class="wide">
                <Health node={node} />
              </td>
              <td class="number">{numberText(node.behind)}</td>
              <td class="number">{numberText(node.faults)}</td>
              <td class="number">{numberText(node.drift)}</td>
            </tr>
          ))}
        </Table>
      )}
      {more}
    </Card>
  );
}

/** `now`: a moment by the fleet's clock. */
export function Slowest({
  slowest,
  now,
  linkOf,
}: { readonly slowest: FleetLive['slowest']; readonly now: string } & Pick<NodesProps, 'linkOf'>) {
  return (
    <Card title="Slowest Services of the last hour">
      {slowest.length === 0 && <Empty>No Service changed in the last hour.</Empty>}
      {slowest.length > 0 && (
        <Table label="Slowest Services of the last hour" heads={['Service', 'To the last node', 'At', 'Last node']}>
          {slowest.map((one) => (
            <tr key={one.service}>
              <td>
                <Verbatim class="strong">{one.service}</Verbatim>
              </td>
              <td class="number">{millisecondsText(one.milliseconds)}</td>
              <td class="number">{clockTime(one.at, now)}</td>
              <td>
                <NodeLink name={one.node} linkOf={linkOf} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

export function Kinds({ nodes }: { readonly nodes: readonly FleetNode[] }) {
  const kinds = kindsOf(nodes);
  const [mixed, [shown, more]] = [mixedText(kinds), useFirst(kinds, FIRST_ROWS)];
  return (
    <Card title="Modes and versions" aside={mixed === '' ? undefined : <State kind="warn">{mixed}</State>}>
      {kinds.length === 0 && <Empty>No agent has reported its mode and version yet.</Empty>}
      {kinds.length > 0 && (
        <Table label="Modes and versions of the agents" heads={['Mode', 'Version', 'Nodes', 'Share']}>
          {shown.map(({ mode, version, count }) => (
            <tr key={`${mode} ${version}`}>
              <td>{mode === '' ? 'not known' : <Verbatim>{mode}</Verbatim>}</td>
              <td>{version === '' ? 'not known' : <Verbatim>{version}</Verbatim>}</td>
              <td class="number">{numberText(count)}</td>
              <td class="number">
                <svg class="share" width="80" height="8" aria-hidden="true">
                  <rect class="whole" width="80" height="8" rx="4" />
                  <rect width={(80 * count) / nodes.length} height="8" rx="4" />
                </svg>{' '}
                {percentText(count / nodes.length)}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {more}
    </Card>
  );
}
