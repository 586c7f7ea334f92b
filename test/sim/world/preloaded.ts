/** Modules that the agent and the controller load when they first need them: reading files takes real time, which differs each time. */
import '@kubernetes/client-node';
import '../../../native/conntrack.ts';
import '../../../native/rtnetlink.ts';
import '../../../src/agent/questions/explain-now.ts';
import '../../../src/agent/questions/explain-past.ts';
import '../../../src/inspect/explain/verify.ts';
import '../../../src/inspect/history/reading.ts';
import '../../../src/kernel/ipvs-netlink.ts';
import '../../../src/kernel/trace-table.ts';
import '../../../src/serve/query-handler.ts';
