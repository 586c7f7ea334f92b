/** Texts with a binary form: IPv4 addresses, times, and numbers. A text that another form would not give back is none of them. */

const ZERO = 0x30;
const NINE = 0x39;

/** Digits without a leading zero, such as a resourceVersion. `first`: the code of the first character. */
export function numberOf(text: string, first: number): number | undefined {
  if (first < ZERO || first > NINE || text.length > 15 || (first === ZERO && text.length > 1)) return undefined;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < ZERO || code > NINE) return undefined;
    value = value * 10 + code - ZERO;
  }
  return value;
}

/** The 32 bits of an IPv4 address. */
export function ipv4Bits(text: string, first: number): number | undefined {
  if (first < ZERO || first > NINE || text.length > 15 || text.length < 7) return undefined;
  let [bits, part, dots, digits] = [0, 0, 0, 0];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x2e) {
      if (digits === 0 || dots === 3) return undefined;
      bits = bits * 0x100 + part;
      [part, digits, dots] = [0, 0, dots + 1];
    } else {
      const isLeadingZero = digits === 1 && part === 0;
      if (code < ZERO || code > NINE || isLeadingZero) return undefined;
      part = part * 10 + code - ZERO;
      digits += 1;
      if (part > 0xff) return undefined;
    }
  }
  return dots === 3 && digits > 0 ? bits * 0x100 + part : undefined;
}

export function ipv4Text(a: number, b: number, c: number, d: number): string {
  return `${a}.${b}.${c}.${d}`;
}

/** Seconds since 1970 of an RFC 3339 time in UTC without a fraction. */
export function timeOf(text: string, first: number): number | undefined {
  if (first < ZERO || first > NINE || text.length !== 20 || !text.endsWith('Z')) return undefined;
  const seconds = Date.parse(text) / 1000;
  return Number.isSafeInteger(seconds) && seconds >= 0 && timeText(seconds) === text ? seconds : undefined;
}

/** The last time that was asked for: objects have few different ones. */
let lastTime = { seconds: 0, text: '1970-01-01T00:00:00Z' };

export function timeText(seconds: number): string {
  if (seconds !== lastTime.seconds) {
    lastTime = { seconds, text: new Date(seconds * 1000).toISOString().replace('.000Z', 'Z') };
  }
  return lastTime.text;
}
