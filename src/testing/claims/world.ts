import assert from 'node:assert/strict'
import type { EffectState } from '../../base/index.ts'
import { HapaxError, silentLogger } from '../../base/index.ts'
import type { ClaimConsumerOptions, ClaimHapax, ClaimHapaxOptions } from '../../claims/index.ts'
import type {
  ClaimConsumer,
  ClaimContext,
  Claimed,
  ClaimStore,
  Lease,
  StoreClaims,
  Worker,
} from '../../contracts/index.ts'
import { createHapax } from '../../hapax.ts'
import type { IncomingMessage, StoredMessage } from '../../message/index.ts'
import { fingerprint, messageKey } from '../../message/index.ts'
import { altered } from '../altered.ts'
import { AT_ONCE, type Count, Ping } from '../store/world.ts'
import { until } from '../wait.ts'
import type { TestLeases } from './harness.ts'

export type Sms = (ctx: ClaimContext, data: Count) => unknown

/** Options of a consumer of a case. */
export interface SmsOptions extends ClaimConsumerOptions {
  readonly hapax?: ClaimHapax
  readonly name?: string
}

/** One case's store, and what is made on it. */
export class ClaimWorld {
  readonly #place: TestLeases
  readonly #workers: Worker[] = []

  constructor(place: TestLeases) {
    this.#place = place
  }

  get store(): ClaimStore {
    return this.#place.store
  }

  hapax(options: Partial<ClaimHapaxOptions> = {}): ClaimHapax {
    return createHapax({ store: this.store, logger: silentLogger, ...options })
  }

  /** A hapax as another process would have it. */
  async rival(): Promise<ClaimHapax> {
    return this.hapax({ store: await this.#place.another() })
  }

  /** A consumer of pings whose retries are due at once. */
  sms(handler: Sms, { hapax = this.hapax(), name = 'sms', ...options }: SmsOptions = {}): ClaimConsumer {
    return hapax.leased(name, { retry: AT_ONCE, ...options }).on(Ping, (data, ctx) => handler(ctx, data))
  }

  /** Claims one message as a process would that does nothing with it. */
  async claim(id: string, options: Partial<Parameters<StoreClaims['claim']>[2]> = {}): Promise<Claimed> {
    const all = { token: crypto.randomUUID(), leaseMs: 60_000, alone: true, ...options }
    const [claimed] = await this.store.claims.claim('sms', [stored(id)], all)
    return claimed as Claimed
  }

  /** Claims a message, and insists. */
  async lease(id: string, options: Partial<Parameters<StoreClaims['claim']>[2]> = {}): Promise<Lease> {
    let claimed: Claimed | undefined
    await until(async () => {
      claimed = await this.claim(id, options)
      return claimed.kind === 'ours'
    }, `a lease of ${id}`)
    return (claimed as Claimed & { kind: 'ours' }).lease
  }

  /** Handles retried messages until none is due. */
  async drain(hapax: ClaimHapax, consumer: ClaimConsumer): Promise<void> {
    const worker = await this.worker(hapax, consumer)
    await worker.drain()
    await worker.stop()
  }

  async worker(hapax: ClaimHapax, consumer: ClaimConsumer): Promise<Worker> {
    const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
    this.#workers.push(worker)
    await worker.start()
    return worker
  }

  /** The journal of a message. */
  async journal(id: string): Promise<readonly [string, EffectState, number][]> {
    const effects = await this.store.journal.of('sms', messageKey('/sender', id))
    return effects.map(({ name, state, attempts }) => [name, state, attempts])
  }

  /** Where the message is. */
  async places(id: string): Promise<readonly string[]> {
    return (await this.store.admin.trace(id, '/sender')).map(({ where }) => where).sort()
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#workers.map((worker) => worker.stop({ deadlineMs: 0 })))
    await this.#place.close()
  }
}

/** A provider that counts its calls by key. */
export class Provider {
  readonly keys: string[] = []

  readonly send = async (key: string): Promise<{ readonly sent: number }> => {
    this.keys.push(key)
    return { sent: this.keys.length }
  }
}

/** A message as a store gets it. */
export function stored(id: string, more: Partial<StoredMessage> = {}): StoredMessage {
  const data = Buffer.from('{"n":1}')
  const rest = { key: null, attributes: '{}', data, fingerprint: fingerprint(data) }
  return { messageKey: messageKey('/sender', id), source: '/sender', id, type: 'ping', ...rest, ...more }
}

/** Deliveries, as a broker would hand them over. */
export function pings(ids: readonly string[]): readonly IncomingMessage[] {
  return ids.map((id) => ({ id, source: '/sender', type: 'ping', data: { n: 1 } }))
}

/** The same store for a process of which some claims do not come through. */
export function without(store: ClaimStore, ...names: readonly (keyof StoreClaims)[]): ClaimStore {
  const noAnswer = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'no answer'))
  return altered(store, { claims: Object.fromEntries(names.map((name) => [name, noAnswer])) })
}

/** A claim found this. */
export function assertKind(claimed: Claimed, kind: Claimed['kind']): void {
  assert.equal(claimed.kind, kind, JSON.stringify(claimed))
}

/** What goes wrong in an attempt. */
export const ERROR = { name: 'Error', message: 'no' } as const
