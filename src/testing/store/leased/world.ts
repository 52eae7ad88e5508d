import assert from 'node:assert/strict'
import type { EffectState } from '../../../base/index.ts'
import { HapaxError } from '../../../base/index.ts'
import type { InboxRow, LeasedContext } from '../../../contracts/index.ts'
import type { Leased, LeasedOptions } from '../../../leased/index.ts'
import { messageKey } from '../../../message/index.ts'
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

/** Works what is due, under a lease. */
export async function work(world: World, consumer: Leased<Tx>): Promise<void> {
  for (const seq of await world.due()) await consumer.consumer.work([seq])
}

export async function states(world: World, id: string): Promise<readonly [string, EffectState, number][]> {
  const effects = await world.store.effects('billing', messageKey('/sender', id))
  return effects.map(({ name, state, attempts }) => [name, state, attempts])
}

/** A message in the inbox that nobody works on. */
export async function storeOne(world: World, id: string): Promise<void> {
  const { consumer } = world.reader(undefined, { name: 'billing', receive: 'store' })
  await consumer.handle(ping(id))
}

/** Another process takes over, once the lease has ended. */
export async function stolen(world: World, seq: string): Promise<readonly InboxRow[]> {
  let rows: readonly InboxRow[] = []
  await world.until(async () => {
    rows = await world.store.lease([seq], crypto.randomUUID(), 60_000)
    return rows.length > 0
  })
  return rows
}

/** The same store for a process whose heartbeats do not come through. */
export function silent(store: AnyStore): AnyStore {
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (name === 'renew') return () => Promise.reject(new HapaxError('store-unavailable', 'no answer'))
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** The same store, and how often a method was called. */
export function counting(store: AnyStore, method: keyof AnyStore): { store: AnyStore; count: () => number } {
  let calls = 0
  const proxy = new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name === method) calls += 1
      return value.bind(target)
    },
  })
  return { store: proxy, count: () => calls }
}

/** The same store, with some methods replaced. */
export function altered(store: AnyStore, methods: Partial<AnyStore>): AnyStore {
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(name in methods ? methods : target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** The seq of a message of billing. */
export async function seqOf(world: World, id: string): Promise<string> {
  return (await world.store.inboxSeq('billing', messageKey('/sender', id))) ?? assert.fail(`${id} is not in the inbox`)
}
