/** Errors of connections as Node.js gives them to who asked. */

/** As of a system call on a socket. */
export function socketError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

export function connectionReset(message = 'read ECONNRESET'): Error {
  return socketError('ECONNRESET', message);
}

/** The peer does not answer probes of a quiet connection (TCP keep-alive). */
export function connectionTimedOut(): Error {
  return socketError('ETIMEDOUT', 'read ETIMEDOUT');
}

export function connectionRefused({ hostname, port }: URL): Error {
  return socketError('ECONNREFUSED', `connect ECONNREFUSED ${hostname}:${port || 443}`);
}

/** Of a request whose signal aborted. */
export function abortError(reason: unknown): Error {
  const error = Object.assign(new Error('The operation was aborted', { cause: reason }), { code: 'ABORT_ERR' });
  error.name = 'AbortError';
  return error;
}
