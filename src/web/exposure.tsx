/** The addresses that this node serves to clients outside the cluster, who may use them, and problems with them. */
import type { Exposed, Exposure } from '../inspect/wire/exposure.ts';
import { countText } from '../inspect/wire/format.ts';
import { Card, Empty, Problem, State, Table, useFirst, Verbatim } from './bits.tsx';
import { useAnswer } from './hooks.ts';
import type { SignKind } from './page-text.ts';
import { go, linkTo } from './routes.ts';

/** Rows of the table at first, and those that each press of its button adds. */
const ROWS_STEP = 200;

const ANSWERS: Readonly<Record<Exposed['answers'], { readonly sign: SignKind; readonly text: string }>> = {
  endpoints: { sign: 'ok', text: 'an endpoint answers' },
  refuses: { sign: 'none', text: 'refused: no endpoint' },
  drops: { sign: 'off', text: 'dropped: no endpoint here' },
  health: { sign: 'ok', text: 'the number of its local endpoints' },
};

export function ExposureView({ search, revision }: { readonly search: string; readonly revision: string }) {
  const { answer, problem, isLoading } = useAnswer<Exposure>('/exposure', revision);
  return (
    <section class="exposure" aria-label="Exposure">
      <h1>Exposure</h1>
      <p class="muted">
        The addresses that this node serves to clients outside the cluster, and who may use them. Entries that look
        wrong come first.
      </p>
      {isLoading && <Empty>Asking the agent…</Empty>}
      {problem !== undefined && <Problem>{problem}</Problem>}
      {answer !== undefined && <Known answer={answer} search={search} />}
    </section>
  );
}

function Known({ answer, search }: { readonly answer: Exposure; readonly search: string }) {
  const { exposed, problems, nodePortAddresses, omitted } = answer;
  const fitting = exposed.filter((one) => fits(one, search));
  const [first, more] = useFirst(fitting, ROWS_STEP);
  const wrong = exposed.filter((one) => one.problems.length > 0).length + problems.length;
  return (
    <>
      <p class="lead">
        <State kind={wrong === 0 ? 'ok' : 'warn'}>
          {wrong === 0 ? 'Nothing looks wrong' : `${countText(wrong, 'entry', 'entries')} to look at`}
        </State>
        <span class="muted">{countText(exposed.length + omitted, 'entry', 'entries')} in all</span>
      </p>
      {problems.map((text) => (
        <Problem key={text}>{text}</Problem>
      ))}
      <div class="search">
        <input
          id="search"
          type="search"
          value={search}
          aria-label="Search exposed addresses by Service, address or port"
          placeholder="Service, address, port"
          spellcheck={false}
          onInput={({ currentTarget: { value } }) => go({ view: 'exposure', search: value }, 'replace')}
        />
        <p role="status" class="count">
          {countText(fitting.length, 'entry', 'entries')}
        </p>
      </div>
      {fitting.length === 0 && (
        <Empty>{exposed.length === 0 ? 'This node answers nothing from outside.' : 'Nothing fits this search.'}</Empty>
      )}
      {fitting.length > 0 && (
        <div class="card">
          {' '}
          <Table
            label="Exposed addresses"
            heads={['Address', 'Kind', 'Service', 'Allowed clients', 'Answer', 'Problems']}
          >
            {first.map((one) => (
              <Row key={`${one.kind} ${one.address} ${one.port} ${one.protocol} ${one.family}`} one={one} />
            ))}
          </Table>
        </div>
      )}
      {more}
      {omitted > 0 && (
        <p class="muted">{countText(omitted, 'entry', 'entries')} without a problem left out of this long list.</p>
      )}
      <NodePortAddresses addresses={nodePortAddresses} />
    </>
  );
}

function NodePortAddresses({ addresses }: { readonly addresses: readonly string[] }) {
  return (
    <Card title="Addresses that serve node ports">
      {addresses.length === 0 && <Empty>None.</Empty>}
      <p class="mono">{addresses.join(', ')}</p>
    </Card>
  );
}

function fits({ service, address, port, kind }: Exposed, search: string): boolean {
  const words = search.toLowerCase().split(/\s+/);
  const text = `${service} ${address} ${port} ${kind}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function Row({ one }: { readonly one: Exposed }) {
  const { sign, text } = ANSWERS[one.answers];
  const host = one.address.includes(':') ? `[${one.address}]` : one.address;
  return (
    <tr class={one.problems.length > 0 ? 'wrong' : ''}>
      <td class="mono number">
        {one.address === '' ? `any ${one.family} ` : host}:<b>{one.port}</b>/{one.protocol}
      </td>
      <td>{one.kind}</td>
      <td>
        <a href={linkTo({ view: 'service', name: one.service.split(':', 1)[0] ?? '' })}>
          <Verbatim>{one.service}</Verbatim>
        </a>
      </td>
      <td>{one.to.length === 0 ? 'everybody' : <Verbatim class="mono">{one.to.join(', ')}</Verbatim>}</td>
      <td>
        <State kind={sign}>{text}</State>
      </td>
      <td class="wide">
        {one.problems.length === 0 && <span class="muted">nothing</span>}
        {one.problems.map((problem) => (
          <State key={problem} kind="warn">
            <Verbatim>{problem}</Verbatim>
          </State>
        ))}
      </td>
    </tr>
  );
}
