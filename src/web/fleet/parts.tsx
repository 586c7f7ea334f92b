/** Lists of the fleet's page: nodes that are behind, one node, the slowest Services, faults and drift, modes and versions. */
import type { ComponentChildren } from 'preact';
import type { FleetLive, FleetNode } from '../../inspect/wire/fleet.ts';
import { clockTime, millisecondsText, numberText, percentText } from '../../inspect/wire/format.ts';
import { Card, Empty, Said, State, Table, useFirst } from '../bits.tsx';
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
const FEW = 10;

interface NodesProps {
  readonly nodes: readonly FleetNode[];
  /** Milliseconds since the message that has the nodes. */
  readonly passed: number;
  readonly linkOf: (node: string) => string;
}

function NodeLink({ name, linkOf }: Pick<NodesProps, 'linkOf'> & { readonly name: string }) {
  return (
    <a href={linkOf(name)}>
      <Said>{name}</Said>
    </a>
  );
}

export function BehindList({ nodes, passed, linkOf }: NodesProps) {
  const behind = behindOf(nodes, passed);
  const [shown, more] = useFirst(behind, FEW);
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
                <Said>{node.why}</Said>
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
  /** undefined: the fleet does not know it. */
  readonly node: FleetNode | undefined;
  readonly passed: number;
  readonly onClose: () => void;
}

/** All that is known of one node. */
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
        <Said>{name}</Said>
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
      <Pair name="State">
        <State kind={signOfNode(node.state, lag)}>{stateText(node.state, lag)}</State>
      </Pair>
      {node.why !== '' && (
        <Pair name="Why">
          <Said>{node.why}</Said>
        </Pair>
      )}
      <Pair name="Health">
        <Health node={node} />
      </Pair>
      <Pair name="Mode">{node.mode === '' ? 'not known' : <Said>{node.mode}</Said>}</Pair>
      <Pair name="Version">{node.version === '' ? 'not known' : <Said>{node.version}</Said>}</Pair>
      <Pair name="Services refused">{numberText(node.behind)}</Pair>
      <Pair name="Faults of objects">{numberText(node.faults)}</Pair>
      <Pair name="Changes by other programs">{numberText(node.drift)}</Pair>
    </dl>
  );
}

function Pair({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Health({ node: { healthy, reasons } }: { readonly node: FleetNode }) {
  if (healthy) return <State kind="ok">healthy</State>;
  return (
    <State kind="bad">
      not healthy
      {reasons.map((reason) => (
        <span key={reason} class="reason">
          <Said>{reason}</Said>
        </span>
      ))}
    </State>
  );
}

export function Troubles({ nodes, linkOf }: Omit<NodesProps, 'passed'>) {
  const troubled = troubledOf(nodes);
  const [shown, more] = useFirst(troubled, FEW);
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
                <Said class="strong">{one.service}</Said>
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
  const [mixed, [shown, more]] = [mixedText(kinds), useFirst(kinds, FEW)];
  return (
    <Card title="Modes and versions" aside={mixed === '' ? undefined : <State kind="warn">{mixed}</State>}>
      {kinds.length === 0 && <Empty>No agent has said its mode and version.</Empty>}
      {kinds.length > 0 && (
        <Table label="Modes and versions of the agents" heads={['Mode', 'Version', 'Nodes', 'Share']}>
          {shown.map(({ mode, version, count }) => (
            <tr key={`${mode} ${version}`}>
              <td>{mode === '' ? 'not known' : <Said>{mode}</Said>}</td>
              <td>{version === '' ? 'not known' : <Said>{version}</Said>}</td>
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
