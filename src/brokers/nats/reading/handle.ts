import type { Handle } from '../../kit/index.ts'
import type { Link } from '../link.ts'
import { nanos } from '../streams.ts'

const ACK = Buffer.from('+ACK')
const NAK = Buffer.from('-NAK')
const WORKING = Buffer.from('+WPI')

/** Acks or rejects one delivery, on the link that it came by and on no other. */
export class AckHandle implements Handle {
  readonly #link: Link
  readonly #reply: string

  constructor(link: Link, reply: string) {
    this.#link = link
    this.#reply = reply
  }

  ack(): void {
    this.#link.send(this.#reply, ACK)
  }

  giveBack(): void {
    this.#link.send(this.#reply, NAK)
  }

  reject(delayMs: number): boolean {
    const delay = nanos(Math.max(0, Math.round(delayMs)))
    this.#link.send(this.#reply, delay === 0 ? NAK : Buffer.from(`-NAK ${JSON.stringify({ delay })}`))
    return true
  }

  /** Tells the server that work goes on: it waits for another `ackWaitMs`. */
  working(): void {
    this.#link.send(this.#reply, WORKING)
  }
}
