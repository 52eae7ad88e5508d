import type { LinkTap } from './link-proxy.ts'

/** The unsettled deliveries of one channel, and the queue they came from. */
interface Channel {
  queue: string
  readonly unacked: Set<number>
}

/** Reads AMQP as it passes through a proxy: what RabbitMQ has delivered that is not settled yet, and the acks. */
export class AmqpTap {
  readonly #channels = new Set<Channel>()
  /** Frames that ack one delivery, and those that ack all up to it. */
  readonly acks = { single: 0, multiple: 0 }
  /** Deliveries that were returned. */
  returned = 0
  /** Everything that was delivered and settled. */
  moves = 0

  /** How many deliveries of a queue are not settled. */
  unacked(queue: string): number {
    let count = 0
    for (const channel of this.#channels) if (channel.queue === queue) count += channel.unacked.size
    return count
  }

  /** Watches one connection. */
  link(): LinkTap {
    const channels = new Map<number, Channel>()
    const channel = (number: number): Channel => {
      const known = channels.get(number) ?? { queue: '', unacked: new Set() }
      channels.set(number, known)
      this.#channels.add(known)
      return known
    }
    const close = (number: number): void => {
      this.#channels.delete(channel(number))
      channels.delete(number)
    }
    // A client begins with an eight-byte protocol header, which is not a frame.
    const sent = new Frames(8, (frame) => this.#sent(frame, channel, close))
    const received = new Frames(0, (frame) => this.#received(frame, channel, close))
    return {
      sent: (chunk) => sent.take(chunk),
      received: (chunk) => received.take(chunk),
      ended: () => {
        for (const number of [...channels.keys()]) close(number)
      },
    }
  }

  #sent(frame: Method, channel: (number: number) => Channel, close: (number: number) => void): void {
    const { name, payload } = frame
    if (name === '20.40') close(frame.channel)
    if (name === '60.20') channel(frame.channel).queue = shortText(payload, 6)
    if (name !== '60.80' && name !== '60.90' && name !== '60.120') return
    const tag = Number(payload.readBigUInt64BE(4))
    const multiple = name !== '60.90' && ((payload[12] ?? 0) & 1) === 1
    const { unacked } = channel(frame.channel)
    const answered = multiple ? [...unacked].filter((each) => each <= tag) : [tag]
    for (const each of answered) unacked.delete(each)
    this.moves += 1
    if (name === '60.80') this.acks[multiple ? 'multiple' : 'single'] += 1
    else this.returned += answered.length
  }

  #received(frame: Method, channel: (number: number) => Channel, close: (number: number) => void): void {
    const { name, payload } = frame
    if (name === '20.40') close(frame.channel)
    if (name !== '60.60') return
    this.moves += 1
    const tag = 4 + 1 + (payload[4] ?? 0)
    channel(frame.channel).unacked.add(Number(payload.readBigUInt64BE(tag)))
  }
}

function shortText(payload: Buffer, at: number): string {
  return payload.toString('utf8', at + 1, at + 1 + (payload[at] ?? 0))
}

interface Method {
  readonly channel: number
  /** Class and method: `60.80` is basic.ack. */
  readonly name: string
  readonly payload: Buffer
}

/** Cuts a stream into frames, and hands out those of methods. */
class Frames {
  readonly #see: (frame: Method) => void
  #skip: number
  #rest = Buffer.alloc(0)

  constructor(skip: number, see: (frame: Method) => void) {
    this.#skip = skip
    this.#see = see
  }

  take(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk])
    if (this.#rest.length < this.#skip) return
    this.#rest = this.#rest.subarray(this.#skip)
    this.#skip = 0
    while (this.#rest.length >= 8 && this.#rest.length >= 8 + this.#rest.readUInt32BE(3)) {
      const size = this.#rest.readUInt32BE(3)
      const payload = this.#rest.subarray(7, 7 + size)
      if (this.#rest[0] === 1) {
        const name = `${payload.readUInt16BE(0)}.${payload.readUInt16BE(2)}`
        this.#see({ channel: this.#rest.readUInt16BE(1), name, payload })
      }
      this.#rest = this.#rest.subarray(8 + size)
    }
  }
}
