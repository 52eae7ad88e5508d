import { describe, expect, it } from 'vitest'
import { Response } from '../../src/brokers/kafka/reading/decompression.ts'

const HEAD_BYTES = 61

/** A batch as it is on the wire, with these compressed bytes. */
function batch(data: Buffer, count: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeInt32BE(HEAD_BYTES - 12 + data.length, 8)
  head.writeInt8(2, 16)
  head.writeInt32BE(count, HEAD_BYTES - 4)
  return Buffer.concat([head, data])
}

function framed(...parts: Buffer[]): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(parts.reduce((sum, part) => sum + part.length, 0))
  return Buffer.concat([length, ...parts])
}

describe('a response of Kafka that arrives in pieces', () => {
  const data = Buffer.from('compressed')
  const earlier = framed(batch(Buffer.from('something else'), 7))
  const wire = Buffer.concat([earlier, framed(Buffer.from('fields'), data, batch(data, 3))])

  it('says how many records a batch has, wherever it was cut', () => {
    for (let first = 1; first < wire.length; first++) {
      for (const second of [first, Math.min(wire.length - 1, first + 5)]) {
        const response = new Response()
        for (const chunk of [wire.subarray(0, first), wire.subarray(first, second)]) {
          response.add(chunk)
          response.dropComplete()
        }
        response.add(wire.subarray(second))
        expect(response.countOf(Buffer.from(data)), `cut at ${first} and ${second}`).toBe(3)
      }
    }
  })

  it('keeps nothing of responses that were read', () => {
    const response = new Response()
    response.add(wire)
    response.dropComplete()
    expect(() => response.countOf(data)).toThrow('not made as Kafka makes them')
  })

  it('does not look for the end of what is no response', () => {
    const response = new Response()
    response.add(Buffer.alloc(100, 0xff))
    response.dropComplete()
    expect(() => response.countOf(data)).toThrow('not made as Kafka makes them')
  })
})
