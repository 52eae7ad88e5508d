import type { Hapax, IncomingMessage } from '../../index.ts'
import type { SqliteTx } from '../../stores/sqlite/index.ts'
import { chance } from './chance.ts'
import type { Books } from './shop.ts'

/** One delivery of a message to the worker. */
export interface Delivery {
  readonly tag: number
  readonly message: IncomingMessage
}

const PREFETCH = 20
const MAX_DELAY_MS = 1000
const RELAY_BATCH = 100

/**
 * Stands for a message broker: it delivers at least once. A third of the messages is delivered twice, and what a worker did
 * not acknowledge before it died is delivered again.
 */
export class Broker {
  readonly #seed: number
  readonly #queue: IncomingMessage[] = []
  readonly #unacked = new Map<number, IncomingMessage>()
  #send: ((delivery: Delivery) => void) | undefined
  #copies = 0
  #messages = 0
  #tag = 0

  constructor(seed: number) {
    this.#seed = seed
  }

  /** How many deliveries were made. */
  get delivered(): number {
    return this.#tag
  }

  get idle(): boolean {
    return this.#queue.length === 0 && this.#unacked.size === 0 && this.#copies === 0
  }

  publish(message: IncomingMessage): void {
    this.#messages += 1
    this.#enqueue(message)
    if (chance(this.#seed, 'copy', this.#messages) >= 1 / 3) return
    this.#copies += 1
    setTimeout(
      () => {
        this.#copies -= 1
        this.#enqueue(message)
      },
      MAX_DELAY_MS * chance(this.#seed, 'delay', this.#messages) ** 2,
    )
  }

  /** A worker is there. */
  attach(send: (delivery: Delivery) => void): void {
    this.#send = send
    this.#pump()
  }

  /** The worker has died: what it held is delivered again, and marked as such, as brokers do. */
  detach(): void {
    this.#send = undefined
    this.#queue.unshift(...[...this.#unacked.values()].map((message) => ({ ...message, redelivered: true })))
    this.#unacked.clear()
  }

  settle(tag: number, ack: boolean): void {
    const message = this.#unacked.get(tag)
    this.#unacked.delete(tag)
    if (message !== undefined && !ack) this.#queue.push(message)
    this.#pump()
  }

  #enqueue(message: IncomingMessage): void {
    this.#queue.push(message)
    this.#pump()
  }

  #pump(): void {
    while (this.#send !== undefined && this.#unacked.size < PREFETCH) {
      const message = this.#queue.shift()
      if (message === undefined) return
      this.#tag += 1
      this.#unacked.set(this.#tag, message)
      this.#send({ tag: this.#tag, message })
    }
  }
}

/**
 * Stands for the relay: reads committed messages, hands them to the broker, and deletes the rows that the broker has
 * confirmed. Answers how many there were.
 */
export async function relay(hapax: Hapax<SqliteTx>, books: Books, broker: Broker): Promise<number> {
  const rows = books.outbox(RELAY_BATCH)
  if (rows.length === 0) return 0
  for (const { message } of rows) broker.publish(message)
  const seqs = JSON.stringify(rows.map(({ seq }) => seq))
  await hapax.transaction((tx) =>
    tx.query('delete from hapax_outbox where seq in (select value from json_each(?))', [seqs]),
  )
  return rows.length
}
