/** The answer of `explain`, drawn as the way of a packet. The link of the view carries the question. */
import { useEffect, useState } from 'preact/hooks';
import type { Explanation } from '../inspect/wire/explanation.ts';
import { Card, Empty, Problem, Said, Sign, State, Table, useFirst } from './bits.tsx';
import { useAnswer } from './hooks.ts';
import { signOfVerdict } from './page-text.ts';
import { Path } from './path.tsx';
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
        <Said>{verdict.sentence}</Said>
      </p>
      <Path answer={answer} />
      {reasons.length > 0 && <Reasons reasons={reasons} />}
      {unused.length > 0 && <Unused endpoints={unused} />}
      {notes.length > 0 && (
        <Card title="Notes">
          <ul class="list">
            {notes.map((text) => (
              <li key={text}>
                <Said>{text}</Said>
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
            <Said>{text}</Said>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Reasons({ reasons }: Pick<Explanation, 'reasons'>) {
  return (
    <Card title="Why">
      <Table label="Reasons" heads={['Object', 'Field', 'Value', 'What follows']}>
        {reasons.map(({ object, field, value, says }) => (
          <tr key={`${object} ${field} ${says}`}>
            <td>
              <Said>{object}</Said>
            </td>
            <td class="mono">
              <Said>{field}</Said>
            </td>
            <td class="mono">
              <Said>{value}</Said>
            </td>
            <td class="wide">
              <Said>{says}</Said>
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
            <Said class="mono">{endpoint}</Said>
            <Said>{why}</Said>
          </li>
        ))}
      </ul>
      {more}
    </Card>
  );
}
