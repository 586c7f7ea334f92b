/** The hash in the names of chains. */
import { createHash } from 'node:crypto';

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The first 16 characters of SHA-256 in base32 (RFC 4648), as kube-proxy's portProtoHash (pkg/proxy/iptables) makes them. */
export function shortHash(text: string): string {
  const bytes = createHash('sha256').update(text).digest();
  let bits = 0;
  let held = 0;
  let out = '';
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5 && out.length < 16) {
      bits -= 5;
      out += BASE32[(held >> bits) & 31];
    }
    if (out.length === 16) return out;
    held &= (1 << bits) - 1;
  }
  return out;
}
