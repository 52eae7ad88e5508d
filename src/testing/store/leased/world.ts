import assert from 'node:assert/strict'
import type { EffectState } from '../../../base/index.ts'
import { HapaxError } from '../../../base/index.ts'
import type { InboxRow, Leased, LeasedContext } from '../../../contracts/index.ts'
import type { LeasedOptions } from '../../../leased/index.ts'
import { coreOf } from '../../../leased/index.ts'
import { messageKey } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import { type AnyHapax, type AnyStore, AT_ONCE, Ping, ping, type Tx, type World } from '../world.ts'

export type Sms = (ctx: LeasedContext<Tx>) => unknown

/** A provider that counts its calls by key. */
export class Provider {
  readonly calls: string[] = []

  send = async (key: string): Promise<{ sent: number }> => {
    this.calls.push(key)
    return { sent: this.calls.length }
  }
}

export function leased(world: World, handler: Sms, options: LeasedOptions & { hapax?: AnyHapax } = {}): Leased<Tx> {
  const { hapax = world.hapax(), ...others } = options
  return hapax.leased('billing', { retry: AT_ONCE, ...others }).on(Ping, (_, ctx) => handler(ctx))
}

/** Works what is due, under a lease. A renewal of the lease before may still have a row locked for a moment: then it is not leased. */
export async function work(world: World, consumer: Leased<Tx>): Promise<void> {
  for (const seq of await world.due()) await world.until(async () => (await coreOf(consumer).work([seq])).size > 0)
}

export async function states(world: World, id: string): Promise<readonly [string, EffectState, number][]> {
  const effects = await world.store.journal.of('billing', messageKey('/sender', id))
  return effects.map(({ name, state, attempts }) => [name, state, attempts])
}

/** Stores a message in the inbox that no worker has leased. */
export async function storeOne(world: World, id: string): Promise<void> {
  const { consumer } = world.reader(undefined, { name: 'billing', receive: 'store' })
  await consumer.handle(ping(id))
}

/** Another process takes over, once the lease has ended. */
export async function stolen(world: World, seq: string): Promise<readonly InboxRow[]> {
  let rows: readonly InboxRow[] = []
  await world.until(async () => {
    rows = await world.store.inbox.lease([seq], crypto.randomUUID(), 60_000)
    return rows.length > 0
  })
  return rows
}

/** The same store for a process whose heartbeats do not come through. */
export function silent(store: AnyStore): AnyStore {
  const renew = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'no answer'))
  return altered(store, { inbox: { renew } })
}

/** The same store, and how often leases were prolonged. */
export function counting(store: AnyStore): { store: AnyStore; count: () => number } {
  let calls = 0
  const renew: AnyStore['inbox']['renew'] = (leases, leaseMs) => {
    calls += 1
    return store.inbox.renew(leases, leaseMs)
  }
  return { store: altered(store, { inbox: { renew } }), count: () => calls }
}

/** The seq of a message of billing. */
export async function seqOf(world: World, id: string): Promise<string> {
  return (
    (await world.store.inbox.find('billing', messageKey('/sender', id))) ?? assert.fail(`${id} is not in the inbox`)
  )
}
