/**
 * The answer of `explain`, drawn as the way of a packet: the sender, the steps in the kernel, and a branch for each endpoint. The link of
 * the view carries the question.
 */
import { useEffect, useState } from 'preact/hooks';
import type { ExplainedEndpoint, ExplainedStep, Explanation } from '../inspect/wire/explanation.ts';
import { percentText } from '../inspect/wire/format.ts';
import { Card, Empty, Problem, Sign, State, Table, useFirst, Verbatim } from './bits.tsx';
import { useAnswer } from './hooks.ts';
import { signOfVerdict } from './page-text.ts';
import { go, linkTo, questionOf } from './routes.ts';

const EXAMPLES = [
  { from: 'outside', to: 'nodeport:30080' },
  { from: 'node', to: 'svc/default/kubernetes:https' },
] as const;

interface ExplainProps {
  readonly from: string;
  readonly to: string;
  readonly revision: string;
}

export function ExplainView({ from, to, revision }: ExplainProps) {
  const isAsked = from !== '' && to !== '';
  const path = isAsked ? questionOf('/explain', { from, to, rules: 'true' }) : undefined;
  const { answer, problem, isLoading } = useAnswer<Explanation>(path, revision);
  return (
    <section class="explain" aria-label="Explain">
      <h1>Explain</h1>
      <Form from={from} to={to} />
      {!isAsked && <Introduction />}
      {isLoading && <Empty>The agent walks the packet through its rules…</Empty>}
      {problem !== undefined && <Problem>{problem}</Problem>}
      {answer !== undefined && <Answer answer={answer} />}
    </section>
  );
}

function Form({ from, to }: { readonly from: string; readonly to: string }) {
  const [typed, setTyped] = useState({ from, to });
  useEffect(() => setTyped({ from, to }), [from, to]);
  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault();
        go({ view: 'explain', from: typed.from.trim(), to: typed.to.trim() });
      }}
    >
      <label>
        <span>From</span>
        <input
          name="from"
          value={typed.from}
          list="senders"
          placeholder="node, outside, pod/shop/web-1, 10.244.1.13"
          autocomplete="off"
          spellcheck={false}
          required
          onInput={({ currentTarget: { value } }) => setTyped((before) => ({ ...before, from: value }))}
        />
      </label>
      <label>
        <span>To</span>
        <input
          name="to"
          value={typed.to}
          placeholder="svc/shop/web:80, 10.96.0.10:80, nodeport:30080"
          autocomplete="off"
          spellcheck={false}
          required
          onInput={({ currentTarget: { value } }) => setTyped((before) => ({ ...before, to: value }))}
        />
      </label>
      <datalist id="senders">
        <option value="node" />
        <option value="outside" />
      </datalist>
      <button type="submit">Explain</button>
    </form>
  );
}

function Introduction() {
  return (
    <Empty>
      The agent walks a packet through the rules that the kernel has, and says where it goes and why. Examples:{' '}
      {EXAMPLES.map(({ from, to }) => (
        <a key={to} class="chip mono" href={linkTo({ view: 'explain', from, to })}>
          {from} → {to}
        </a>
      ))}
    </Empty>
  );
}

function Answer({ answer }: { readonly answer: Explanation }) {
  const { differs, verdict, reasons, slices, notes } = answer;
  const unused = slices.flatMap(({ endpoints }) => endpoints).filter(({ used }) => !used);
  return (
    <>
      {differs.length > 0 && <Differs differs={differs} />}
      <p class="verdict" role="status">
        <State kind={signOfVerdict(verdict.kind)}>{verdict.kind}</State>
        <Verbatim>{verdict.sentence}</Verbatim>
      </p>
      <Path answer={answer} />
      {reasons.length > 0 && <Reasons reasons={reasons} />}
      {unused.length > 0 && <Unused endpoints={unused} />}
      {notes.length > 0 && (
        <Card title="Notes">
          <ul class="list">
            {notes.map((text) => (
              <li key={text}>
                <Verbatim>{text}</Verbatim>
              </li>
            ))}
          </ul>
        </Card>
      )}
    </>
  );
}

function Differs({ differs }: Pick<Explanation, 'differs'>) {
  return (
    <div class="differs" role="alert">
      <p>
        <Sign kind="bad" /> <b>The kernel differs from what it should have.</b>
      </p>
      <ul>
        {differs.map((text) => (
          <li key={text}>
            <Verbatim>{text}</Verbatim>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Reasons({ reasons }: Pick<Explanation, 'reasons'>) {
  return (
    <Card title="Why">
      <Table label="Reasons" heads={['Object', 'Field', 'Value', 'Consequence']}>
        {reasons.map(({ object, field, value, says }) => (
          <tr key={`${object} ${field} ${says}`}>
            <td>
              <Verbatim>{object}</Verbatim>
            </td>
            <td class="mono">
              <Verbatim>{field}</Verbatim>
            </td>
            <td class="mono">
              <Verbatim>{value}</Verbatim>
            </td>
            <td class="wide">
              <Verbatim>{says}</Verbatim>
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

function Unused({ endpoints }: { readonly endpoints: Explanation['slices'][number]['endpoints'] }) {
  const [first, more] = useFirst(endpoints);
  return (
    <Card title="Endpoints that are not used">
      <ul class="list">
        {first.map(({ endpoint, why }) => (
          <li key={endpoint}>
            <Verbatim class="mono">{endpoint}</Verbatim>
            <Verbatim>{why}</Verbatim>
          </li>
        ))}
      </ul>
      {more}
    </Card>
  );
}

/** The first endpoints are drawn, and the others counted. */
const MAX_DRAWN = 40;

function Path({ answer: { from, to, steps, verdict } }: { readonly answer: Explanation }) {
  const service = verdict.service.split(':', 1)[0] ?? '';
  const hasEndpoints = verdict.endpoints.length > 0;
  return (
    <div class="path" data-testid="path">
      <div class="stop sender">
        <span class="kind">
          {from.what === 'pod' ? 'a Pod' : from.what === 'node' ? 'this node' : 'outside the cluster'}
        </span>
        <b class="mono">
          <Verbatim>{from.address}</Verbatim>
        </b>
        {from.text !== from.address && <Verbatim class="muted">{from.text}</Verbatim>}
        <span class="arrow">
          to{' '}
          <Verbatim class="mono">{`${to.address.includes(':') ? `[${to.address}]` : to.address}:${to.port}/${to.protocol}`}</Verbatim>
        </span>
      </div>
      <div class="way">
        <ol class="steps" aria-label="Steps in the kernel">
          {steps.map((step, i) => (
            <Step key={i} step={step} />
          ))}
          <li class={`end ${signOfVerdict(verdict.kind)}`}>
            <Sign kind={signOfVerdict(verdict.kind)} />
            {service === '' ? (
              <b>{verdict.kind}</b>
            ) : (
              <a href={linkTo({ view: 'service', name: service })}>
                <Verbatim>{verdict.service}</Verbatim>
              </a>
            )}
          </li>
        </ol>
      </div>
      <div class="stops">
        {hasEndpoints ? (
          <ul aria-label="Endpoints">
            {verdict.endpoints.slice(0, MAX_DRAWN).map((one) => (
              <Endpoint key={one.endpoint} one={one} />
            ))}
          </ul>
        ) : (
          <p class="stop nobody">
            <Sign kind={signOfVerdict(verdict.kind)} /> {NOWHERE[verdict.kind]}
          </p>
        )}
        {verdict.endpoints.length > MAX_DRAWN && (
          <p class="muted">{verdict.endpoints.length - MAX_DRAWN} more endpoints not drawn.</p>
        )}
        {verdict.sticky !== null && (
          <p class="muted">
            This sender stays with <Verbatim class="mono">{verdict.sticky.endpoint}</Verbatim> for{' '}
            {Math.round(verdict.sticky.seconds)} s.
          </p>
        )}
      </div>
    </div>
  );
}

const NOWHERE: Readonly<Record<Explanation['verdict']['kind'], string>> = {
  balanced: 'No endpoint',
  refused: 'The sender gets an error at once.',
  dropped: 'The packet is dropped: the sender waits in vain.',
  'not a Service': 'No Service has this destination: the packet goes on as it is.',
  local: 'This node itself receives the packet.',
};

function Step({ step: { table, chain, rule, does, object } }: { readonly step: ExplainedStep }) {
  return (
    <li>
      <p>
        <Verbatim class="strong">{does}</Verbatim>
        <span class="muted mono">
          {' '}
          {table} {chain}
        </span>
        {object !== '' && <span class="chip object">{object}</span>}
      </p>
      <code>{rule}</code>
    </li>
  );
}

function Endpoint({ one: { endpoint, share, masqueraded, why, steps } }: { readonly one: ExplainedEndpoint }) {
  return (
    <li class="stop endpoint">
      <span class="line">
        <b class="mono">
          <Verbatim>{endpoint}</Verbatim>
        </b>
        <span>{percentText(share)}</span>
      </span>
      <meter min={0} max={1} value={share} aria-label="share of new connections" />
      <span class={masqueraded ? 'masquerade' : 'muted'}>
        {masqueraded ? 'sees an address of this node (masqueraded)' : 'sees the sender'}
      </span>
      {why !== '' && <Verbatim class="muted small">{why}</Verbatim>}
      {steps.length > 0 && (
        <details>
          <summary>Its own steps</summary>
          <ol class="steps small">
            {steps.map((step, i) => (
              <Step key={i} step={step} />
            ))}
          </ol>
        </details>
      )}
    </li>
  );
}
