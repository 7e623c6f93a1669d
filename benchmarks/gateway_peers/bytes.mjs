// The same bytes for the same seed on both sides, so that every one can be compared.

export class Random {
  constructor(seed) {
    this.state = (seed + 1) * 2_654_435_761 >>> 0 || 1;
  }

  /** A whole number from 0 up to, not with, `limit` (xorshift32). */
  below(limit) {
    let x = this.state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.state = x >>> 0;
    return this.state % limit;
  }
}

/** `pieces` KiB of bytes of any value. */
export function bytesOf(seed, pieces) {
  const random = new Random(seed);
  const bytes = Buffer.alloc(pieces * 1024);
  for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE(random.below(4_294_967_295), at);
  return bytes;
}
