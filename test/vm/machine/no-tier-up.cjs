/**
 * WebAssembly as it is first compiled is good enough: Node.js strips types with it. On emulated processors V8 gives up now
 * and then while it compiles it anew, better («Check failed: it->second.Size() > offset», from Runtime_WasmTriggerTierUp).
 */
const { setFlagsFromString } = require('node:v8');

setFlagsFromString('--no-wasm-tier-up');
setFlagsFromString('--no-wasm-dynamic-tiering');
