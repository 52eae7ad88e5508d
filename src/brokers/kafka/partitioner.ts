/** The partition of a key, as the Java client and librdkafka (murmur2) choose it, so that all senders of a key agree. */
export function partitionOf(key: Uint8Array, partitions: number): number {
  return (murmur2(key) & 0x7fffffff) % partitions
}

const MIX = 0x5bd1e995

/** MurmurHash2 with Kafka's seed, as a signed 32-bit number. */
export function murmur2(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const whole = bytes.byteLength & ~3
  let hash = 0x9747b28c ^ bytes.byteLength
  for (let at = 0; at < whole; at += 4) {
    let word = Math.imul(view.getInt32(at, true), MIX)
    word ^= word >>> 24
    hash = Math.imul(hash, MIX) ^ Math.imul(word, MIX)
  }
  if (whole < bytes.byteLength) {
    for (let at = bytes.byteLength - 1; at >= whole; at--) hash ^= view.getUint8(at) << (8 * (at - whole))
    hash = Math.imul(hash, MIX)
  }
  hash = Math.imul(hash ^ (hash >>> 13), MIX)
  return hash ^ (hash >>> 15)
}
