import assert from 'node:assert/strict'
import type { Confirmation, Destination, Prefetch } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import { promised } from '../promised.ts'
import { settled, until } from '../wait.ts'
import type { BrokerHarness, BrokerNeed, TestBroker } from './harness.ts'
import { Listener, type Received } from './listener.ts'
import { type RowStore, Shop, type ShopOptions } from './shop.ts'

/** How a case reads. */
export interface ListenOptions extends Partial<Prefetch> {
  readonly single?: boolean
  /** Called for each delivery at once. */
  readonly each?: (received: Received) => void
}

/** One case's place at a broker, and what is made on it. */
export class World {
  readonly broker: TestBroker
  /** A fresh store. */
  readonly openStore: () => RowStore
  readonly #cannot: BrokerHarness['cannot']
  readonly #open: { close(): Promise<void> }[] = []

  constructor(broker: TestBroker, cannot: BrokerHarness['cannot'], openStore: () => RowStore) {
    this.broker = broker
    this.openStore = openStore
    this.#cannot = cannot
  }

  /** An application; it is closed when the case ends. */
  shop(options: Partial<ShopOptions> = {}): Shop {
    return this.closeLater(new Shop({ rows: options.rows ?? this.openStore(), ...options }))
  }

  /** A destination; it is closed when the case ends. */
  destination(options?: Parameters<TestBroker['destination']>[0]): Destination {
    return this.closeLater(this.broker.destination(options))
  }

  /** A reader of a group; it is closed when the case ends. */
  async listen(group: string, { single, each, messages = 100, bytes = 1e9 }: ListenOptions = {}): Promise<Listener> {
    const subscription = await this.broker.subscription(group, single === undefined ? {} : { single })
    return this.closeLater(await Listener.open(subscription, { messages, bytes }, each))
  }

  /** A group without a reader yet. */
  async group(name: string): Promise<void> {
    await this.broker.subscription(name)
  }

  /** Whether the harness has what this case would like to see as well. */
  can(need: BrokerNeed): boolean {
    return this.#cannot[need] === undefined
  }

  /** Everything of this group has been acked. */
  async untilNothingWaits(group: string): Promise<void> {
    let waiting = 0
    const none = async (): Promise<boolean> => {
      waiting = await this.broker.waiting(group)
      return waiting === 0
    }
    await until(none, () => `nothing waits in ${group}; there are ${waiting}`)
  }

  closeLater<T extends { close(): Promise<void> }>(opened: T): T {
    this.#open.push(opened)
    return opened
  }

  async close(): Promise<void> {
    const closing = this.#open.reverse().map((each) => each.close())
    await settled(Promise.allSettled(closing), 'everything is closed')
    await settled(this.broker.close(), 'the broker is closed')
  }
}

/** A message of one key, so that it stays in order also where order is by partition. */
export function message(id: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage {
  const data = Buffer.from(JSON.stringify({ id }))
  return { id, source: '/sender', type: 'ping', key: 'one', datacontenttype: 'application/json', data, ...more }
}

/** Numbered ids. */
export function numbered(count: number, prefix = 'm'): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`)
}

/** Publishes and resolves with the confirmations, in the order of the messages. */
export async function publish(
  destination: Destination,
  messages: readonly OutgoingMessage[],
  signal: AbortSignal = new AbortController().signal,
): Promise<readonly Confirmation[]> {
  const promises = promised(destination, messages, signal)
  return settled(Promise.all(promises), `${destination.name} has answered for each message`)
}

/** Messages with these ids. */
export function messages(ids: readonly string[]): readonly OutgoingMessage[] {
  return ids.map((id) => message(id))
}

/** Publishes messages with these ids, and has all of them confirmed. */
export async function publishAll(destination: Destination, ids: readonly string[]): Promise<void> {
  assertConfirmed(await publish(destination, messages(ids)))
}

/** The same as a relay does it after an interruption: what was not confirmed is sent again, until it is. */
export async function publishAgain(destination: Destination, ids: readonly string[]): Promise<void> {
  let left = ids
  const send = async (): Promise<boolean> => {
    const sent = await publish(destination, messages(left))
    left = left.filter((_, index) => sent[index]?.status !== 'confirmed')
    return left.length === 0
  }
  await until(send, () => `${destination.name} confirms ${left.slice(0, 50).join(' ')}`)
}

/** Every message was confirmed. */
export function assertConfirmed(confirmations: readonly Confirmation[]): void {
  for (const each of confirmations) assert.equal(each.status, 'confirmed', shown(each))
}

/** Asserts the statuses of the confirmations. */
export function assertStatuses(confirmations: readonly Confirmation[], expected: readonly string[]): void {
  assert.deepEqual(
    confirmations.map(({ status }) => status),
    expected,
    confirmations.map(shown).join('; '),
  )
}

function shown(confirmation: Confirmation): string {
  return confirmation.status === 'confirmed' ? 'confirmed' : `${confirmation.status}: ${confirmation.error.message}`
}

/** The same ids, in any order, each as often. */
export function assertSame(ids: readonly string[], expected: readonly string[]): void {
  assert.deepEqual([...ids].sort(), [...expected].sort())
}
