/** What `fake-kubelet.ts` uses of ws beside its client. */
declare module 'ws' {
  import type { IncomingMessage } from 'node:http';
  import type { Duplex } from 'node:stream';

  export interface ServerOptions {
    readonly noServer: true;
    readonly handleProtocols: (protocols: Set<string>) => string | false;
  }

  export class WebSocketServer {
    constructor(options: ServerOptions);
    handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, then: (socket: WebSocket) => void): void;
  }
}
