/**
 * Texts for failed TLS connections to the API server: the cause, and what to check, by the code of the error.
 * Node.js's own messages advise flags of `node`, such as --use-system-ca, which users of slicewire cannot set.
 * Codes: https://nodejs.org/api/tls.html#x509-certificate-error-codes; of OpenSSL's alerts: RFC 8446, section 6.2.
 */

const CA = 'certificate-authority of the cluster in the kubeconfig (for a pod: ca.crt of its service account)';
const CLIENT = 'client-certificate and client-key of the user in the kubeconfig';

const UNKNOWN_ISSUER = `its certificate is not signed by the authority that this agent trusts; compare ${CA}`;
const BAD_CLIENT = `it does not accept the certificate of this agent; check ${CLIENT}`;

const PROBLEMS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired; renew it, or correct the clock of this machine',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet; check the clocks of this machine and of the server',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_ISSUER,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_ISSUER,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_ISSUER,
  CERT_SIGNATURE_FAILURE: UNKNOWN_ISSUER,
  CERT_UNTRUSTED: UNKNOWN_ISSUER,
  CERT_REJECTED: UNKNOWN_ISSUER,
  INVALID_CA: `the authority that signed its certificate may not sign certificates; compare ${CA}`,
  CERT_CHAIN_TOO_LONG: 'the chain from its certificate to the authority that this agent trusts is too long',
  CERT_REVOKED: 'its certificate was revoked; give the server another one',
  INVALID_PURPOSE: 'its certificate is not for servers; give the server another one',
  ERR_SSL_WRONG_VERSION_NUMBER:
    'it does not speak TLS on this port; check the port, and whether the URL should begin with http://',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'its version of TLS is too old',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION:
    'it wants a version of TLS that this agent does not speak (it speaks 1.2 and 1.3)',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: `it wants a certificate, and this agent sent none; check ${CLIENT}`,
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: BAD_CLIENT,
  ERR_SSL_SSL_TLS_ALERT_BAD_CERTIFICATE: BAD_CLIENT,
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED: `the certificate of this agent has expired; renew ${CLIENT}`,
  ERR_SSL_SSL_TLS_ALERT_CERTIFICATE_EXPIRED: `the certificate of this agent has expired; renew ${CLIENT}`,
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN: BAD_CLIENT,
  ERR_SSL_SSL_TLS_ALERT_CERTIFICATE_UNKNOWN: BAD_CLIENT,
  ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: BAD_CLIENT,
  ERR_OSSL_X509_KEY_VALUES_MISMATCH: `the key of this agent does not match its certificate; check ${CLIENT}`,
  ERR_OSSL_PEM_NO_START_LINE: 'a certificate or key in the kubeconfig is not in PEM form',
  ERR_OSSL_PEM_BAD_BASE64_DECODE: 'a certificate or key in the kubeconfig is not in PEM form',
  ERR_OSSL_PEM_BAD_END_LINE: 'a certificate or key in the kubeconfig is not in PEM form',
};

/** As Node.js throws it. */
interface TlsFailure {
  readonly code?: unknown;
  readonly message?: string;
  /** Of ERR_TLS_CERT_ALTNAME_INVALID: the expected name, and the certificate. */
  readonly host?: unknown;
  readonly cert?: { readonly subjectaltname?: unknown };
}

/** A clause with the code at its end; undefined for other errors than those of TLS. */
export function tlsProblem(error: unknown): string | undefined {
  const { code, host, cert } = (error ?? {}) as TlsFailure;
  if (typeof code !== 'string') return undefined;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `${namesProblem(host, cert?.subjectaltname)} (${code})`;
  const problem = Object.hasOwn(PROBLEMS, code) ? PROBLEMS[code] : undefined;
  if (problem !== undefined) return `${problem} (${code})`;
  return /^ERR_SSL_/.test(code) ? `the TLS handshake failed (${code})` : undefined;
}

/** An untrusted server sent the names, so they are shortened and kept on one line. */
function namesProblem(host: unknown, names: unknown): string {
  const listed = String(names ?? '').replace(/[^\x20-\x7e]/g, '?');
  const short = listed.length > 200 ? `${listed.slice(0, 200)}…` : listed;
  const holds = short === '' ? 'and names no host' : `only for ${short}`;
  return `its certificate is not for ${String(host ?? 'this address')}, ${holds}; use one of its names as the server, or give it a certificate for this one`;
}
