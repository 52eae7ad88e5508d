import { randomUUID } from 'node:crypto'
import zlib from 'node:zlib'
import { fieldOf } from '../../../base/index.ts'
import type { KafkaBatch, KafkaClient } from '../client.ts'
import { onLink } from '../link.ts'

// The client decompresses a whole batch at once, without a limit: a megabyte on the wire can be a gigabyte of zeros, which would
// exhaust the memory of the process, again after every restart. The client has no setting for it, so its decompressors are wrapped.
// The limit holds only for bytes that arrive through links of hapax.

/** The part of `@platformatic/kafka` that decompresses. */
interface Library {
  readonly compressionsAlgorithmsByBitmask?: Readonly<Record<number, Algorithm>>
}

interface Algorithm {
  readonly bitmask: number
  decompressSync(data: Buffer): Buffer
}

/** The link of hapax whose bytes are being read now, and its limit; undefined for bytes of any other link. */
let reading: { readonly maxBytes: number; readonly response: Response } | undefined
const wrapped = new WeakSet<Algorithm>()

/**
 * Bounds the decompressed size of batches that arrive through the links of this client. Does nothing if the library has another
 * structure than hapax knows.
 */
export function boundBatches(client: KafkaClient, library: Library, maxBytes: number): void {
  const { compressionsAlgorithmsByBitmask: algorithms = {} } = library
  for (const algorithm of Object.values(algorithms)) if (!wrapped.has(algorithm)) wrap(algorithm)
  onLink(client, 'connect', ({ socket }) => {
    const response = new Response()
    // The client handles a chunk of data synchronously, between these two listeners.
    socket?.prependListener('data', (chunk: Buffer) => {
      response.add(chunk)
      reading = { maxBytes, response }
      // In case the client throws in between.
      queueMicrotask(() => {
        reading = undefined
      })
    })
    socket?.on('data', () => {
      response.dropComplete()
      reading = undefined
    })
  })
}

function wrap(algorithm: Algorithm): void {
  const decompress = algorithm.decompressSync
  wrapped.add(algorithm)
  algorithm.decompressSync = (data) => {
    if (reading === undefined) return decompress(data)
    return (
      bounded(algorithm.bitmask, data, reading.maxBytes, decompress) ?? placeholders(reading.response.countOf(data))
    )
  }
}

/** The decompressed bytes; undefined if they exceed the limit. */
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

/** The decompressed size, which snappy states up front; in xerial framing each chunk does. */
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

/** An upper bound: a frame states its largest block size, each block its compressed size, and LZ4 expands at most 255 times. */
function lz4Bytes(data: Buffer): number {
  // The legacy frame format does not state block sizes. Kafka does not use it, but the client reads it.
  if (data.length < 7 || data.readUInt32LE(0) !== 0x184d2204) return 255 * data.length
  const flags = data.readUInt8(4)
  // The code 4 means 64 KiB, and 7 means 4 MiB.
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

/** Marks placeholders. Random, so that no sender can forge it. */
const MARK = Buffer.from(randomUUID())

/** Whether a record stands in for one that was not decompressed. */
export function isPlaceholder({ headers }: KafkaBatch['records'][number]): boolean {
  return headers[0]?.[0]?.equals(MARK) ?? false
}

/** As many empty records as the header of the batch announces, so that offsets still add up. */
function placeholders(count: number): Buffer {
  const records: Buffer[] = []
  for (let at = 0; at < count; at++) records.push(placeholder(at))
  return Buffer.concat(records)
}

/** What has arrived of the responses that are not complete, or not read yet. The client passes on compressed bytes without their header. */
export class Response {
  #chunks: Buffer[] = []

  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  /** A response begins with its length. */
  dropComplete(): void {
    for (;;) {
      const bytes = this.#chunks.reduce((sum, { length }) => sum + length, 0)
      const length = bytes < 4 ? undefined : 4 + Buffer.concat(this.#firstFour()).readInt32BE(0)
      // What is no response has no end either. The client closes such a link.
      if (length === undefined || length < 4 || bytes < length) return
      this.#drop(length)
    }
  }

  /** How many records the batch has whose compressed bytes are these. */
  countOf(data: Buffer): number {
    const all = Buffer.concat(this.#chunks)
    for (let at = all.indexOf(data, HEAD_BYTES); at >= 0; at = all.indexOf(data, at + 1)) {
      const head = all.subarray(at - HEAD_BYTES, at)
      const count = head.readInt32BE(HEAD_BYTES - 4)
      const fits = head[MAGIC_AT] === 2 && head.readInt32BE(LENGTH_AT) === HEAD_BYTES - LENGTH_AT - 4 + data.length
      if (fits && count >= 0 && count <= MOST_RECORDS) return count
    }
    throw new RangeError('a batch is larger than it may be, and is not made as Kafka makes them')
  }

  /** As many chunks as have the first four bytes. */
  #firstFour(): Buffer[] {
    let bytes = 0
    const last = this.#chunks.findIndex(({ length }) => {
      bytes += length
      return bytes >= 4
    })
    return this.#chunks.slice(0, last + 1)
  }

  #drop(bytes: number): void {
    let left = bytes
    while (left > 0) {
      const [first = EMPTY] = this.#chunks
      if (first.length <= left) this.#chunks.shift()
      else this.#chunks[0] = first.subarray(left)
      left -= Math.min(left, first.length)
    }
  }
}

const EMPTY = Buffer.alloc(0)

/** The header of a batch before its records: offset, length, epoch, magic, checksum, attributes … and the record count. */
const HEAD_BYTES = 61
const LENGTH_AT = 8
const MAGIC_AT = 16
const MOST_RECORDS = 1_000_000

/** A record with no key, no value and one header, the mark. */
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
