/** In a namespace: listens at PORT for at most one connection, and stops before it accepts any. The kernel drops every SYN after the first ones. */
import net from 'node:net';

const server = net.createServer();
server.listen({ port: Number(process.argv[2]), host: '::', backlog: 1 }, () => {
  process.stdout.write('listening\n', () => process.kill(process.pid, 'SIGSTOP'));
});
