import assert from 'node:assert/strict'
import type { Delivered, DeliverySettings, Endpoint, EndpointDestination } from '../../../contracts/index.ts'
import type { OutgoingMessage } from '../../../message/index.ts'
import { type AnyHapax, Ping, type World } from '../world.ts'

/** A delivery that a receiver saw. */
export interface Seen {
  readonly endpoint: string
  readonly message: OutgoingMessage
  /** How often this endpoint has seen this message, this time included. */
  readonly times: number
}

type Answer = (seen: Seen, signal: AbortSignal) => Delivered | Promise<Delivered>

export const DELIVERED: Delivered = { status: 'delivered', code: 200, answer: 'ok' }
export const GONE: Delivered = { status: 'gone', answer: '' }

/** An answer that asks for another attempt. */
export function answered(code: number | undefined, retryAfterMs?: number): Delivered {
  return { status: 'failed', error: new Error('not taken'), code, answer: 'not now', retryAfterMs }
}

const SETTINGS: DeliverySettings = {
  scheduleMs: [0, 0, 0],
  concurrency: 10,
  perEndpoint: 5,
  breaker: { failures: 1_000, pauseMs: 60_000 },
  timeoutMs: 30_000,
}

/** The receivers of all endpoints, which answer as the case decides. */
export class TestReceivers implements EndpointDestination {
  readonly kind = 'endpoints'
  readonly name = 'test receivers'
  readonly settings: DeliverySettings
  readonly seen: Seen[] = []
  readonly #answer: Answer

  constructor(answer: Answer = () => DELIVERED, settings: Partial<DeliverySettings> = {}) {
    this.#answer = answer
    this.settings = { ...SETTINGS, ...settings }
  }

  /** The ids that an endpoint has seen, in order, each once. */
  firsts(endpoint: string): readonly string[] {
    return [...new Set(this.seen.filter((each) => each.endpoint === endpoint).map(({ message }) => message.id))]
  }

  async deliver({ id: endpoint }: Endpoint, message: OutgoingMessage, signal: AbortSignal): Promise<Delivered> {
    const before = this.seen.filter((each) => each.endpoint === endpoint && each.message.id === message.id)
    const seen = { endpoint, message, times: before.length + 1 }
    this.seen.push(seen)
    return this.#answer(seen, signal)
  }

  async check(url: string): Promise<string | undefined> {
    return url.includes('forbidden') ? 'the address is forbidden' : undefined
  }

  secret(): string {
    return `whsec_${crypto.randomUUID()}`
  }

  async prepare(): Promise<void> {}

  async close(): Promise<void> {}
}

/** Registers endpoints of the default relay. */
export async function register(world: World, ids: readonly string[], types: Endpoint['types'] = 'all'): Promise<void> {
  for (const id of ids) {
    const url = `https://${id}.test/hooks`
    const secrets = [{ secret: `whsec_${id}`, until: null }]
    const endpoint = { id, relay: 'default', url, types, secrets, enabled: true, reason: null, note: null }
    assert.ok(await world.store.endpoints.add(endpoint, { actor: 'ann', action: 'add' }))
  }
}

/** Publishes events with these ids; `a1` has the key `a`, those that begin with `-` have none. */
export async function publish(hapax: AnyHapax, ids: readonly string[]): Promise<void> {
  await hapax.transaction(async (tx) => {
    for (const id of ids) {
      const key = id.startsWith('-') ? {} : { key: id.slice(0, 1) }
      await hapax.publish(tx, Ping, { n: 1 }, { id, ...key })
    }
  })
}

export const CONSUMER = 'webhooks:default'
