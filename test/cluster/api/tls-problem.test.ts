/** Failures of TLS as Node.js throws them, from real handshakes on loopback, and what is said of each. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import tls from 'node:tls';
import { tlsProblem } from '../../../src/cluster/api/tls-problem.ts';
import { makeCertificate } from '../../helpers/cluster/api/api-certificate.ts';

const CA = 'compare certificate-authority of the cluster in the kubeconfig (for a pod: ca.crt of its service account)';

describe('a failure of TLS is reported in a sentence', () => {
  let folder: string;
  let identity: { readonly key: string; readonly cert: string };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-tls-'));
    identity = await makeCertificate(folder);
  });
  after(() => rm(folder, { recursive: true }));

  /** What a client fails with. */
  async function failure(server: net.Server, options: tls.ConnectionOptions): Promise<unknown> {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as net.AddressInfo;
    try {
      const socket = tls.connect({ host: '127.0.0.1', port, ...options });
      // In TLS 1.3 a client's certificate is judged after the handshake.
      socket.on('secureConnect', () => socket.write('hello'));
      socket.resume();
      const [error] = await Promise.race([
        new Promise<unknown[]>((resolve) => socket.once('error', (one) => resolve([one]))),
        once(socket, 'close').then(() => [new Error('closed without an error')]),
      ]);
      socket.destroy();
      return error;
    } finally {
      server.close();
    }
  }

  it('a certificate of another authority is named', async () => {
    const error = await failure(tls.createServer(identity), {});
    assert.equal(
      tlsProblem(error),
      `its certificate is not signed by the authority that this agent trusts; ${CA} (DEPTH_ZERO_SELF_SIGNED_CERT)`,
    );
  });

  it('a certificate for another name is named', async () => {
    const error = await failure(tls.createServer(identity), { ca: identity.cert, servername: 'kubernetes' });
    assert.equal(
      tlsProblem(error),
      'its certificate is not for kubernetes, only for IP Address:127.0.0.1; use one of its names as the server, or give it a certificate for this one (ERR_TLS_CERT_ALTNAME_INVALID)',
    );
  });

  it('no TLS on the port', async () => {
    const server = net.createServer((socket) =>
      socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\n\r\n'),
    );
    assert.match(
      tlsProblem(await failure(server, { ca: identity.cert })) ?? '',
      /^it does not speak TLS on this port; check the port, and whether the URL should begin with http:\/\/ \(ERR_SSL_/,
    );
  });

  it('a certificate of the agent is wanted', async () => {
    const server = tls.createServer({ ...identity, ca: identity.cert, requestCert: true, rejectUnauthorized: true });
    server.on('tlsClientError', () => undefined);
    assert.equal(
      tlsProblem(await failure(server, { ca: identity.cert })),
      'it wants a certificate, and this agent sent none; check client-certificate and client-key of the user in the kubeconfig (ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED)',
    );
  });

  it('a key that is not of its certificate, and what is no certificate at all', async () => {
    const other = await makeCertificate(folder);
    const codeOf = (options: tls.SecureContextOptions): unknown => {
      try {
        return tls.createSecureContext(options);
      } catch (error) {
        return error;
      }
    };
    assert.match(
      tlsProblem(codeOf({ cert: identity.cert, key: other.key })) ?? '',
      /^the key of this agent does not match its certificate; check client-certificate and client-key/,
    );
    assert.match(
      tlsProblem(codeOf({ cert: 'no' })) ?? '',
      /^a certificate or key in the kubeconfig is not in PEM form/,
    );
  });

  it('expired, not yet valid, and what is not known; other failures are none of TLS', () => {
    assert.equal(
      tlsProblem({ code: 'CERT_HAS_EXPIRED' }),
      'its certificate has expired; renew it, or correct the clock of this machine (CERT_HAS_EXPIRED)',
    );
    assert.match(
      tlsProblem({ code: 'CERT_NOT_YET_VALID' }) ?? '',
      /^its certificate is not valid yet; check the clocks/,
    );
    assert.equal(tlsProblem({ code: 'ERR_SSL_SOMETHING' }), 'the TLS handshake failed (ERR_SSL_SOMETHING)');
    for (const error of [undefined, null, 7, {}, { code: 'ECONNREFUSED' }, { code: 'constructor' }, { code: 5 }]) {
      assert.equal(tlsProblem(error), undefined);
    }
  });

  it('names in a certificate are printed on one line', () => {
    const cert = { subjectaltname: `DNS:a\nb${'x'.repeat(300)}` };
    const text = tlsProblem({ code: 'ERR_TLS_CERT_ALTNAME_INVALID', host: 'h', cert }) ?? '';
    assert.ok(text.length < 400 && !text.includes('\n'), text);
  });
});
