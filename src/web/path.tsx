/** The way of a packet as a drawing: the sender, the steps in the kernel, and a branch for each endpoint. */
import type { ExplainedEndpoint, ExplainedStep, Explanation } from '../inspect/wire/explanation.ts';
import { percentText } from '../inspect/wire/format.ts';
import { Said, Sign } from './bits.tsx';
import { signOfVerdict } from './page-text.ts';
import { linkTo } from './routes.ts';

/** Endpoints that are drawn; the others are counted. */
const MAX_DRAWN = 40;

export function Path({ answer: { from, to, steps, verdict } }: { readonly answer: Explanation }) {
  const service = verdict.service.split(':', 1)[0] ?? '';
  const ends = verdict.endpoints.length > 0;
  return (
    <div class="path" data-testid="path">
      <div class="stop sender">
        <span class="kind">
          {from.what === 'pod' ? 'a Pod' : from.what === 'node' ? 'this node' : 'outside the cluster'}
        </span>
        <b class="mono">
          <Said>{from.address}</Said>
        </b>
        {from.text !== from.address && <Said class="muted">{from.text}</Said>}
        <span class="arrow">
          to{' '}
          <Said class="mono">{`${to.address.includes(':') ? `[${to.address}]` : to.address}:${to.port}/${to.protocol}`}</Said>
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
                <Said>{verdict.service}</Said>
              </a>
            )}
          </li>
        </ol>
      </div>
      <div class="stops">
        {ends ? (
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
            This sender stays with <Said class="mono">{verdict.sticky.endpoint}</Said> for{' '}
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
        <Said class="strong">{does}</Said>
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
          <Said>{endpoint}</Said>
        </b>
        <span>{percentText(share)}</span>
      </span>
      <meter min={0} max={1} value={share} aria-label="share of new connections" />
      <span class={masqueraded ? 'masquerade' : 'muted'}>
        {masqueraded ? 'sees an address of this node (masqueraded)' : 'sees the sender'}
      </span>
      {why !== '' && <Said class="muted small">{why}</Said>}
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
