/** The program of the shadow's page (docs/shadow.md): what this node would gain by a switch, for an operator and a colleague to read. */
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { bytesText, countText, millisecondsText, timeBetween } from '../inspect/wire/format.ts';
import type { LastingDifference, Shadow } from '../inspect/wire/shadow.ts';
import { changeSentences, lastingTitle, sightText, verdictOf, waitingText } from '../inspect/wire/shadow-text.ts';
import { Card, Empty, Fact, Problem, Sign, Table, useFirst, Verbatim } from './bits.tsx';
import { Announced, Skip, Top } from './frame.tsx';
import type { SignKind } from './page-text.ts';
import { showStoredTheme, useTheme } from './theme.ts';

/** Milliseconds between two questions; none is asked while nobody sees the page. */
const AGAIN_MS = 5000;

type Asked = { readonly shadow: Shadow | undefined; readonly problem: string | undefined };

function useShadow(): Asked {
  const [asked, setAsked] = useState<Asked>({ shadow: undefined, problem: undefined });
  useEffect(() => {
    const ask = async () => {
      if (document.hidden) return;
      try {
        const response = await fetch('/status');
        const answer = (await response.json()) as Shadow & { readonly message?: string };
        if (response.ok) setAsked({ shadow: answer, problem: undefined });
        else setAsked((before) => ({ ...before, problem: answer.message ?? `status ${response.status}` }));
      } catch (error) {
        setAsked((before) => ({ ...before, problem: `The shadow does not answer: ${String(error)}` }));
      }
    };
    void ask();
    const timer = setInterval(() => void ask(), AGAIN_MS);
    document.addEventListener('visibilitychange', ask);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', ask);
    };
  }, []);
  return asked;
}

function signOf({ problem, count }: Shadow): SignKind {
  if (problem !== '') return 'warn';
  return count === 0 ? 'ok' : 'bad';
}

function ShadowApp() {
  const { shadow, problem } = useShadow();
  const theme = useTheme();
  const state = problem !== undefined ? 'gone' : shadow === undefined ? 'connecting' : 'open';
  const kind = shadow === undefined ? '' : signOf(shadow);
  return (
    <>
      <Skip />
      <Top {...{ state, theme, link: '/' }} who={shadow && `shadow of kube-proxy · ${shadow.by.node}`}>
        <span class="filler" />
      </Top>
      <Announced state={state} gone="The shadow does not answer." text={shadow && verdictOf(shadow)} reason={kind} />
      <main id="main" tabIndex={-1}>
        {problem !== undefined && <Problem>{problem}</Problem>}
        {shadow === undefined ? <Empty>Asking the shadow…</Empty> : <Gain shadow={shadow} />}
      </main>
      <footer>
        <span>A shadow writes nothing to the kernel.</span>
        {shadow !== undefined && <span>slicewire {shadow.by.version}</span>}
      </footer>
    </>
  );
}

function Gain({ shadow }: { readonly shadow: Shadow }) {
  const { by, waiting, startedAt, objects, source, cost } = shadow;
  return (
    <>
      <section class={`health ${signOf(shadow)}`} aria-label="Comparison">
        <Sign kind={signOf(shadow)} />
        <div>
          <h1 class="sentence" data-testid="sentence">
            <Verbatim>{verdictOf(shadow)}</Verbatim>
          </h1>
          <p>{waitingText(waiting, by.at)}</p>
        </div>
      </section>
      <h2>What this node would gain</h2>
      <Latency shadow={shadow} />
      <Differences shadow={shadow} />
      <Card title="A switch to slicewire">
        <ul class="list">
          {changeSentences(shadow).map((sentence) => (
            <li key={sentence}>
              <Verbatim>{sentence}</Verbatim>
            </li>
          ))}
        </ul>
      </Card>
      <Card title="This shadow">
        <dl class="facts">
          <Fact name="kube-proxy">{shadow.compared === null ? 'not compared yet' : `${by.mode} mode`}</Fact>
          <Fact name="watched for">{timeBetween(startedAt, by.at)}</Fact>
          <Fact name="objects">
            {countText(objects.services, 'Service')}, {countText(objects.slices, 'EndpointSlice')}
          </Fact>
          <Fact name="source">
            <Verbatim>{source}</Verbatim>
          </Fact>
          <Fact name="processor">{cost.processor.toFixed(1)} s</Fact>
          <Fact name="memory">{bytesText(cost.memory)}</Fact>
        </dl>
      </Card>
    </>
  );
}

function Latency({ shadow: { latency } }: { readonly shadow: Shadow }) {
  const rows = [
    ['kube-proxy, from its receipt to the commit', latency.theirs],
    ['slicewire, to make its rules', latency.plan],
  ] as const;
  return (
    <Card title="Time until the rules follow a change">
      <Table label="Latencies" heads={['', 'half within', '99 % within', 'all within', 'changes in the last hour']}>
        {rows.map(([name, of]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {of === null ? (
              <td colSpan={4}>no change in the last hour</td>
            ) : (
              [of.p50, of.p99, of.most].map((time, i) => <td key={i}>{millisecondsText(time)}</td>)
            )}
            {of !== null && <td>{of.changes}</td>}
          </tr>
        ))}
      </Table>
      <p>{sightText(latency)}</p>
    </Card>
  );
}

function Differences({ shadow: { differences, by } }: { readonly shadow: Shadow }) {
  const [first, more] = useFirst(differences);
  return (
    <Card title="Connections that go elsewhere than the objects say">
      {first.length === 0 ? (
        <Empty>None was found.</Empty>
      ) : (
        <ul class="list">
          {first.map((one) => (
            <Difference key={`${one.service} ${one.kind}`} one={one} now={by.at} />
          ))}
        </ul>
      )}
      {more}
    </Card>
  );
}

function Difference({ one, now }: { readonly one: LastingDifference; readonly now: string }) {
  const { object, found, wanted, causes = [] } = one.example;
  return (
    <li>
      <Verbatim class="strong">{lastingTitle(one, now)}</Verbatim>
      <Verbatim>{`Such as ${object}: it is ${found.join(', ')}, and should be ${wanted.join(', ')}.`}</Verbatim>
      {causes.map((cause) => (
        <Verbatim key={cause}>{cause}</Verbatim>
      ))}
    </li>
  );
}

showStoredTheme();
const root = document.getElementById('page');
if (root !== null) render(<ShadowApp />, root);
