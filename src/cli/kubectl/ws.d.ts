/** The parts of ws that `port-forward.ts` uses. The package has no types (https://github.com/websockets/ws/blob/master/doc/ws.md). */
declare module 'ws' {
  import type { EventEmitter } from 'node:events';
  import type { ClientRequest, IncomingMessage } from 'node:http';
  import type { RequestOptions } from 'node:https';

  export interface ClientOptions extends RequestOptions {
    readonly perMessageDeflate?: boolean;
    /** Bytes of a message. */
    readonly maxPayload?: number;
    readonly handshakeTimeout?: number;
  }

  export class WebSocket extends EventEmitter<{
    open: [];
    message: [data: Buffer, isBinary: boolean];
    close: [code: number, reason: Buffer];
    error: [error: Error];
    'unexpected-response': [request: ClientRequest, response: IncomingMessage];
  }> {
    constructor(address: string | URL, protocols: readonly string[], options?: ClientOptions);
    readonly protocol: string;
    send(data: Uint8Array, onSent?: (error?: Error) => void): void;
    pause(): void;
    resume(): void;
    close(code?: number): void;
    terminate(): void;
  }
}
