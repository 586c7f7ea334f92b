/** An HTTP proxy on loopback that tunnels (CONNECT), as `proxy-url` of a kubeconfig names it. */
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';

export interface ConnectProxy {
  readonly url: string;
  /** Hosts with ports that were asked for, in order. */
  readonly targets: readonly string[];
  stop(): void;
}

export async function connectProxy(): Promise<ConnectProxy> {
  const targets: string[] = [];
  const proxy = createServer().on('connect', (request, socket, head) => {
    targets.push(request.url ?? '');
    const [host, port] = (request.url ?? '').split(':');
    const further = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      further.write(head);
      further.pipe(socket).pipe(further);
    });
    further.on('error', () => socket.destroy());
    socket.on('error', () => further.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    targets,
    stop() {
      proxy.close();
      proxy.closeAllConnections();
    },
  };
}
