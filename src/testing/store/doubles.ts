import { HapaxError } from '../../base/index.ts'
import type { Confirmation, Destination, DestinationFeatures, Subscription } from '../../contracts/index.ts'
import type { IncomingMessage, OutgoingMessage } from '../../message/index.ts'
import { arrivalOf } from '../../message/index.ts'
import { altered } from '../altered.ts'
import { answering } from '../promised.ts'
import type { HarnessFeatures } from './harness.ts'
import { type AnyStore, type Gate, gate } from './world.ts'

/** The same store, and when it is about to meet the locks of others: with a connection at hand, or in the writer's queue. */
export function watched(store: AnyStore, { parallelWriters }: HarnessFeatures): { store: AnyStore; begun: Gate } {
  const begun = gate()
  const run: AnyStore['transactions']['run'] = (options, opening, body) => {
    if (!parallelWriters) begun.open()
    const acquired = (): void => {
      options.acquired?.()
      begun.open()
    }
    return store.transactions.run({ ...options, acquired }, opening, body)
  }
  return { store: altered(store, { transactions: { run } }), begun }
}

/**
 * The same store on a link that breaks during COMMIT, `times` times: before the database saw it, so that nothing is kept,
 * or after it had committed. The client cannot tell which.
 */
export function lossy(store: AnyStore, cut: 'before' | 'after', times = 1): AnyStore {
  let left = times
  const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
    let wrote = false
    const value = await store.transactions.run(options, opening, async (unit) => {
      const end = await body(unit)
      wrote = end.writes !== undefined && left > 0
      return wrote && cut === 'before' ? { ...end, writes: undefined } : end
    })
    return wrote ? lost() : value
  }
  const lost = (): never => {
    left -= 1
    throw new HapaxError('commit-unknown', 'the link was cut')
  }
  const storing: AnyStore['inbox']['store'] = async (options, deliveries) => {
    if (left > 0 && cut === 'before') return lost()
    const stored = await store.inbox.store(options, deliveries)
    return left > 0 ? lost() : stored
  }
  return altered(store, { transactions: { run }, inbox: { store: storing } })
}

/** A subscription that delivers these messages once, and what was acked. */
export function subscription(
  messages: readonly IncomingMessage[],
  ordersKeys: boolean,
): { subscription: Subscription; acked: string[] } {
  const acked: string[] = []
  const open: Subscription['open'] = async ({ receive }) => {
    receive(
      messages.map((message) => ({
        arrival: arrivalOf(message, message.redelivered === true),
        bytes: 1,
        ack: () => acked.push(String(message.id)),
        retry: () => {},
        reject: () => {},
      })),
    )
    return { horizonMs: undefined, pause: async () => {}, close: async () => {} }
  }
  const features = { ordersKeys, marksRedelivered: true, horizonMs: undefined, limitsRejects: undefined }
  return { subscription: { name: 'a test queue', features, open }, acked }
}

/** A destination that confirms as the case decides, and records the ids it got, in order. */
export class TestDestination implements Destination {
  readonly name: string
  readonly features: DestinationFeatures
  readonly arrived: string[] = []
  readonly #answer: (message: OutgoingMessage, times: number) => Confirmation | Promise<Confirmation>

  constructor(
    answer: TestDestination['answer'] = () => ({ status: 'confirmed' }),
    name = 'a test topic',
    keepsOrder = false,
  ) {
    this.#answer = answer
    this.name = name
    this.features = { keepsOrder }
  }

  get answer(): (message: OutgoingMessage, times: number) => Confirmation | Promise<Confirmation> {
    return this.#answer
  }

  prepare(): Promise<void> {
    return Promise.resolve()
  }

  readonly publish: Destination['publish'] = answering(async (message) => {
    this.arrived.push(message.id)
    return this.#answer(message, this.arrived.filter((id) => id === message.id).length)
  })

  async close(): Promise<void> {}
}
