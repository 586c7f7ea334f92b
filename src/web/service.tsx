/** One Service: its frontends, each endpoint with the reason why it is used or not, the kernel's rules, its history. */
import type { ExplainedSlice } from '../inspect/wire/explanation.ts';
import { bytesText, clockTime, countText, millisecondsText, numberText } from '../inspect/wire/format.ts';
import type { History } from '../inspect/wire/history.ts';
import type { FrontendAnswer, ServiceAnswer } from '../inspect/wire/services.ts';
import { Card, Empty, FaultList, Problem, State, Table, useFirst, Verbatim } from './bits.tsx';
import { useAnswer } from './hooks.ts';
import { destinationText, signOfState } from './page-text.ts';
import { linkTo, questionOf } from './routes.ts';

const MAX_CHANGES = 50;

export function ServiceView({ name, revision }: { readonly name: string; readonly revision: string }) {
  const { answer, problem, isLoading } = useAnswer<ServiceAnswer>(questionOf('/service', { name }), revision);
  return (
    <section class="service" aria-label={`Service ${name}`}>
      <p class="crumbs">
        <a href={linkTo({ view: 'services', search: '' })}>Services</a>
      </p>
      <h1>
        <Verbatim>{name}</Verbatim>
      </h1>
      {isLoading && <Empty>Asking the agent…</Empty>}
      {problem !== undefined && <Problem>{problem}</Problem>}
      {answer !== undefined && <Known answer={answer} revision={revision} />}
    </section>
  );
}

function Known({ answer, revision }: { readonly answer: ServiceAnswer; readonly revision: string }) {
  const { row, frontends, slices, rules, rulesOmitted, faults, affinitySeconds, annotations } = answer;
  return (
    <>
      <p class="lead">
        <State kind={signOfState(row.state)}>{row.state}</State>
        <span class="muted">{row.type}</span>
        <span class="muted">
          {affinitySeconds === null
            ? 'no session affinity'
            : `a client keeps its endpoint for ${numberText(affinitySeconds)} s`}
        </span>
        {annotations.map((text) => (
          <Verbatim key={text} class="muted">
            {text}
          </Verbatim>
        ))}
      </p>
      {row.why !== '' && (
        <p class="why">
          <Verbatim>{row.why}</Verbatim>
        </p>
      )}
      {faults.length > 0 && (
        <Card title="Faults" aside={<State kind="warn">{String(faults.length)}</State>}>
          <FaultList faults={faults} />
        </Card>
      )}
      <Frontends service={row.service} frontends={frontends} />
      <Endpoints slices={slices} />
      <Card title="In the kernel" aside={<span class="muted">as the agent believes</span>}>
        {rules.length === 0 && <Empty>The kernel has nothing for this Service.</Empty>}
        {rules.map(({ where, lines }, i) => (
          <details key={where} class="rules" open={i === 0 || rules.length <= 4}>
            <summary>
              <Verbatim class="mono">{where}</Verbatim> <span class="muted">{countText(lines.length, 'line')}</span>
            </summary>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
            <pre tabIndex={0}>{lines.join('\n')}</pre>
          </details>
        ))}
        {rulesOmitted > 0 && <p class="muted">{countText(rulesOmitted, 'more line')} not shown.</p>}
      </Card>
      <Changes service={row.service} revision={revision} />
    </>
  );
}

function Frontends({
  service,
  frontends,
}: {
  readonly service: string;
  readonly frontends: readonly FrontendAnswer[];
}) {
  const counted = frontends.some(({ connections }) => connections !== null);
  const heads = [
    'Frontend',
    'Address',
    'Port',
    'Policy',
    'To',
    'Endpoints',
    ...(counted ? ['Connections'] : []),
    'Explain',
  ];
  return (
    <Card title="Frontends" aside={counted ? undefined : <span class="muted">connections are not counted</span>}>
      {frontends.length === 0 && <Empty>This node serves no address of this Service.</Empty>}
      {frontends.length > 0 && (
        <Table label="Frontends" heads={heads}>
          {frontends.map((one) => (
            <tr key={`${one.kind} ${one.address} ${one.number} ${one.protocol} ${one.family}`}>
              <td>{one.kind}</td>
              <td class="mono">{one.address === '' ? `any of ${one.family}` : one.address}</td>
              <td class="mono">
                {one.number}/{one.protocol} {one.port !== String(one.number) && <span class="muted">{one.port}</span>}
              </td>
              <td>{one.policy}</td>
              <td>
                {one.sources.length === 0 ? 'everybody' : <Verbatim class="mono">{one.sources.join(', ')}</Verbatim>}
              </td>
              <td class="number">{numberText(one.endpoints)}</td>
              {counted && <td class="number">{connectionsText(one)}</td>}
              <td>
                {one.kind !== 'health check' && (
                  <a
                    href={linkTo({
                      view: 'explain',
                      from: one.kind === 'cluster IP' ? 'node' : 'outside',
                      to: destinationText(service, one),
                    })}
                  >
                    Explain
                    <span class="hidden">
                      {' '}
                      {one.kind} {one.address}
                    </span>
                  </a>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

function connectionsText({ connections }: FrontendAnswer): string {
  if (connections === null) return 'not counted';
  const { total, bytes } = connections;
  return bytes === null ? numberText(total) : `${numberText(total)}, ${bytesText(bytes)}`;
}

function Endpoints({ slices }: { readonly slices: readonly ExplainedSlice[] }) {
  const all = slices.flatMap(({ slice, endpoints }) => endpoints.map((endpoint) => ({ slice, ...endpoint })));
  const used = all.filter((one) => one.used).length;
  const [first, more] = useFirst(all);
  return (
    <Card
      title="Endpoints"
      aside={<span class="muted">{`${numberText(used)} of ${numberText(all.length)} used`}</span>}
    >
      {all.length === 0 && <Empty>No EndpointSlice of this Service has an endpoint.</Empty>}
      {all.length > 0 && (
        <Table label="Endpoints" heads={['Endpoint', 'Used', 'Why', 'Node', 'EndpointSlice']}>
          {first.map((one) => (
            <tr key={`${one.slice} ${one.endpoint}`}>
              <td class="mono">
                <Verbatim>{one.endpoint}</Verbatim>
              </td>
              <td>
                <State kind={one.used ? 'ok' : 'none'}>{one.used ? 'used' : 'not used'}</State>
              </td>
              <td class="wide">
                <Verbatim>{one.why}</Verbatim>
              </td>
              <td>
                <Verbatim>{one.node}</Verbatim>
              </td>
              <td>
                <Verbatim>{one.slice}</Verbatim>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {more}
    </Card>
  );
}

function Changes({ service, revision }: { readonly service: string; readonly revision: string }) {
  const path = questionOf('/history', { service, most: MAX_CHANGES });
  const { answer, problem } = useAnswer<History>(path, revision);
  return (
    <Card
      title="History"
      aside={
        answer === undefined ? undefined : (
          <span class="muted">back to {clockTime(answer.reachesBackTo, answer.by.at)}</span>
        )
      }
    >
      {problem !== undefined && <Problem>{problem}</Problem>}
      {answer?.changes.length === 0 && <Empty>No change is recorded.</Empty>}
      {answer !== undefined && answer.changes.length > 0 && (
        <Table
          label="Changes of the Service and its EndpointSlices"
          heads={['Received', 'Object', 'Change', 'In the kernel after']}
        >
          {[...answer.changes]
            .sort((a, b) => b.number - a.number)
            .map((change) => (
              <tr key={change.number}>
                <td class="number">{clockTime(change.at, answer.by.at)}</td>
                <td>
                  <Verbatim>{change.object}</Verbatim>
                </td>
                <td class="wide">
                  <Verbatim>{change.what.join('; ')}</Verbatim>
                </td>
                <td class="number">{changeText(change)}</td>
              </tr>
            ))}
        </Table>
      )}
      {answer !== undefined && answer.omitted > 0 && (
        <p class="muted">{countText(answer.omitted, 'older change')} not shown.</p>
      )}
    </Card>
  );
}

function changeText({ milliseconds, inKernelAt }: History['changes'][number]): string {
  if (milliseconds !== null) return millisecondsText(milliseconds);
  return inKernelAt === null ? 'not written yet' : 'was there before';
}
