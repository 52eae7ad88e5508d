import { randomUUID } from 'node:crypto'
import zlib from 'node:zlib'
import { fieldOf } from '../../../base/index.ts'
import type { KafkaBatch, KafkaClient } from '../client.ts'
import { onLink } from '../link.ts'

// The client decompresses a whole batch at once, however large that becomes: a megabyte can be a gigabyte of zeros. It has no
// setting for that, so its functions are wrapped: those of hapax's own links stop at a limit.

/** The part of `@platformatic/kafka` that decompresses. */
interface Library {
  readonly compressionsAlgorithmsByBitmask?: Readonly<Record<number, Algorithm>>
}

interface Algorithm {
  readonly bitmask: number
  decompressSync(data: Buffer): Buffer
}

/** The limit of the link whose bytes are being read; undefined: it is none of hapax's. */
let limit: number | undefined
const wrapped = new WeakSet<Algorithm>()

/**
 * Lets no batch that comes through the links of this client become larger than so many bytes. Where the library is not the one
 * that hapax knows, nothing is bounded.
 */
export function boundBatches(client: KafkaClient, library: Library, maxBytes: number): void {
  const { compressionsAlgorithmsByBitmask: algorithms = {} } = library
  for (const algorithm of Object.values(algorithms)) if (!wrapped.has(algorithm)) wrap(algorithm)
  onLink(client, 'connect', ({ socket }) => {
    // What the client does with a piece of data, it does between these two.
    socket?.prependListener('data', () => {
      limit = maxBytes
      // Should anything throw in between.
      queueMicrotask(() => {
        limit = undefined
      })
    })
    socket?.on('data', () => {
      limit = undefined
    })
  })
}

function wrap(algorithm: Algorithm): void {
  const decompress = algorithm.decompressSync
  wrapped.add(algorithm)
  algorithm.decompressSync = (data) => {
    if (limit === undefined) return decompress(data)
    return bounded(algorithm.bitmask, data, limit, decompress) ?? placeholders(data)
  }
}

/** The decompressed bytes; undefined: there are more than may be. */
function bounded(
  bitmask: number,
  data: Buffer,
  maxOutputLength: number,
  decompress: Algorithm['decompressSync'],
): Buffer | undefined {
  if (bitmask === SNAPPY) return snappyBytes(data) > maxOutputLength ? undefined : decompress(data)
  if (bitmask === LZ4) return lz4Bytes(data) > maxOutputLength ? undefined : decompress(data)
  try {
    if (bitmask === GZIP) return zlib.gunzipSync(data, { maxOutputLength })
    return bitmask === ZSTD ? zlib.zstdDecompressSync(data, { maxOutputLength }) : decompress(data)
  } catch (error) {
    if (fieldOf(error, 'code') !== 'ERR_BUFFER_TOO_LARGE') throw error
    return undefined
  }
}

const [GZIP, SNAPPY, LZ4, ZSTD] = [1, 2, 3, 4]

/** Snappy says beforehand how large it becomes; in the framing of xerial each piece does. */
function snappyBytes(data: Buffer): number {
  if (data.toString('latin1', 0, 8) !== '\x82SNAPPY\0') return varint(data, 0)
  let bytes = 0
  for (let at = 16; at + 4 < data.length; at += 4 + data.readUInt32BE(at)) bytes += varint(data, at + 4)
  return bytes
}

function varint(data: Buffer, from: number): number {
  let value = 0
  for (let at = from; at < from + 5; at++) {
    const byte = data[at] ?? 0
    value += (byte & 0x7f) * 2 ** (7 * (at - from))
    if (byte < 0x80) break
  }
  return value
}

/** At most: each block says how large it is compressed, a frame how large a block may become, and no byte becomes more than 255. */
function lz4Bytes(data: Buffer): number {
  // An older kind of frames, which Kafka does not have and the client reads all the same, does not say how large its blocks become.
  if (data.length < 7 || data.readUInt32LE(0) !== 0x184d2204) return 255 * data.length
  const flags = data.readUInt8(4)
  // From 64 KiB, which is 4, to 4 MiB, which is 7.
  const largest = 4 ** (4 + ((data.readUInt8(5) >> 4) & 7))
  const checksum = flags & 0x10 ? 4 : 0
  let bytes = 0
  let at = 7 + (flags & 0x08 ? 8 : 0) + (flags & 0x01 ? 4 : 0)
  while (at + 4 <= data.length) {
    const head = data.readUInt32LE(at)
    if (head === 0) break
    const size = head & 0x7fffffff
    bytes += head >= 0x80000000 ? size : Math.min(largest, 255 * size)
    at += 4 + size + checksum
  }
  return bytes
}

/** No sender can know it. */
const MARK = Buffer.from(randomUUID())

/** Whether a record stands for one that was not read. */
export function isPlaceholder({ headers }: KafkaBatch['records'][number]): boolean {
  return headers[0]?.[0]?.equals(MARK) ?? false
}

/** As many records as the batch says that it has, which say no more than that they were not read. */
function placeholders(data: Buffer): Buffer {
  const head = Buffer.from(data.buffer, data.byteOffset - HEAD_BYTES, HEAD_BYTES)
  const count = head.readInt32BE(HEAD_BYTES - 4)
  if (data.byteOffset < HEAD_BYTES || head[MAGIC_AT] !== 2 || count < 0 || count > MOST_RECORDS) {
    throw new RangeError('a batch is larger than it may be, and is not made as Kafka makes them')
  }
  const records: Buffer[] = []
  for (let at = 0; at < count; at++) records.push(placeholder(at))
  return Buffer.concat(records)
}

/** What stands before the records: offset, length, epoch, magic, checksum, attributes … and their number. */
const HEAD_BYTES = 61
const MAGIC_AT = 16
const MOST_RECORDS = 1_000_000

/** Attributes, time, offset, no key, no value, one header: the mark, with nothing. */
function placeholder(offsetDelta: number): Buffer {
  const body = Buffer.concat([
    Buffer.from([0, 0]),
    zigzag(offsetDelta),
    Buffer.from([1, 1, 2]),
    zigzag(MARK.length),
    MARK,
    Buffer.from([0]),
  ])
  return Buffer.concat([zigzag(body.length), body])
}

function zigzag(value: number): Buffer {
  const bytes: number[] = []
  let left = 2 * value
  for (; left > 127; left = Math.floor(left / 128)) bytes.push((left % 128) + 128)
  return Buffer.from([...bytes, left])
}
