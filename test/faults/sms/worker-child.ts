import { setTimeout as pause } from 'node:timers/promises'
import { defineMessage, type EffectOptions, type IncomingMessage, NotDone } from 'hapax'
import { endWithParent, job, say } from '../../support/child.ts'
import { inLanes } from '../../support/lanes.ts'
import { Seams } from '../../support/seams.ts'
import { finish, openHapax, type SmsPlace } from './place.ts'
import type { Sabotage } from './sabotage.ts'
import { type Told, takeAll } from './sender.ts'

/** How a worker takes up a call that nobody knows about. */
export type Policy = 'hold' | 'retry-same-key' | 'verify'

/** One process that sends text messages. */
export interface SmsJob {
  readonly place: SmsPlace
  /** Where the provider listens. */
  readonly provider: string
  readonly policy: Policy
  /** The consumers to work. Each has a type of its own, so that runs can share tables. */
  readonly consumers: readonly string[]
  /** What to do: hand over one message of each consumer, as a broker does, or work what the store has, or both. */
  readonly tasks: readonly ('deliver' | 'work')[]
  /** Who has messages for the first consumer, where the store has no inbox. */
  readonly sender?: string | undefined
  readonly leaseMs: number
  /** Where to die: a point by its name, or the how-manieth one. */
  readonly killAt?: string | number
  readonly sabotage?: Sabotage
  /** Whether the step after the call fails three times, of every message. */
  readonly unlucky?: boolean
}

/** What a worker says that was not killed. */
export interface SmsReport {
  readonly points: readonly string[]
}

endWithParent()
const { place, provider, policy, consumers, tasks, sender, leaseMs, killAt, sabotage, unlucky } = job<SmsJob>()
const seams = new Seams(killAt)
const hapax = await openHapax(place, { seams, sabotage })
const readers = consumers.map((name) =>
  hapax
    .leased(name, { leaseMs, concurrency: 8, retry: { attempts: 60, minDelayMs: 0, maxDelayMs: 30 } })
    .on(defineMessage(`sms.${name}`), async (_, ctx) => {
      const { id } = ctx.message
      const call = (key: string): Promise<string> => seams.around('provider.send', () => send(id, key))
      await ctx.effect('send', call, { timeoutMs: 1_000, ...options(policy) })
      finish(place, ctx, name, (unlucky || id.endsWith('3')) && ctx.attempt <= 3)
    }),
)
if (tasks.includes('deliver')) {
  seams.arm()
  await inLanes(4, readers, deliver)
}
if (sender !== undefined) {
  seams.arm()
  await Promise.all(Array.from({ length: 6 }, () => takeAll(sender, take)))
}
if (tasks.includes('work')) {
  const takeover = place.store === 'redis' ? {} : { takeoverMs: 600 }
  const worker = hapax.worker({ consume: readers, pollMs: 20, ...takeover })
  await worker.start()
  seams.arm()
  while (await waiting()) await pause(20)
  await worker.stop()
}
await say({ points: seams.points } satisfies SmsReport)
await hapax.close()
process.disconnect()

/** Hands over one message, again and again until it is taken. */
async function deliver(reader: (typeof readers)[number]): Promise<void> {
  while (!(await reader.handle(message(reader.name, `${reader.name}.m`))).ack) await pause(50)
}

/** Takes messages of the sender. */
async function take(ids: readonly string[]): Promise<readonly Told[]> {
  const [reader] = readers as [(typeof readers)[number]]
  const outcomes = await reader.handleMany(ids.map((id) => message(reader.name, id)))
  return outcomes.map(({ ack, retryAfterMs = 50 }, at) => ({ id: ids[at] as string, ack, retryAfterMs }))
}

function message(consumer: string, id: string): IncomingMessage {
  return { id, source: '/sms', type: `sms.${consumer}`, data: null }
}

async function send(id: string, key: string): Promise<string> {
  const response = await fetch(`${provider}/send/${id}`, { method: 'POST', headers: { 'idempotency-key': key } })
  if (response.status === 503) throw new NotDone('the provider was too busy')
  return ((await response.json()) as { sms: string }).sms
}

function options(which: Policy): EffectOptions<string> {
  if (which !== 'verify') return { onUnknown: which }
  const onUnknown = async (key: string): Promise<{ done: string } | 'not-done'> => {
    const { sent } = (await (await fetch(`${provider}/sent/${key}`)).json()) as { sent: number }
    return sent > 0 ? { done: `SM-${key}` } : 'not-done'
  }
  return { onUnknown }
}

async function waiting(): Promise<boolean> {
  const { consumers: all } = await hapax.status()
  return all.some(({ waiting, retrying = 0 }) => waiting + retrying > 0)
}
