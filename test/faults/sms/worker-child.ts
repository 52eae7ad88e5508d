import { createHapax, defineMessage, type EffectOptions, NotDone, silentLogger } from 'hapax'
import { endWithParent, job, say } from '../../support/child.ts'
import { insertEffect, openStore, type Place } from '../../support/databases.ts'
import { Seams } from '../../support/seams.ts'
import { type Sabotage, sabotaged } from './sabotage.ts'

/** How a worker takes up a call that nobody knows about. */
export type Policy = 'hold' | 'retry-same-key' | 'verify'

/** One process that sends text messages. */
export interface SmsJob {
  readonly place: Place
  /** Where the provider listens. */
  readonly provider: string
  readonly policy: Policy
  /** The consumers to work. Each has a type of its own, so that runs can share tables. */
  readonly consumers: readonly string[]
  /** What to do: hand over one message of each consumer, as a broker does, or work the inbox, or both. */
  readonly tasks: readonly ('deliver' | 'work')[]
  readonly leaseMs: number
  /** Where to die: a point by its name, or the how-manieth one. */
  readonly killAt?: string | number
  readonly sabotage?: Sabotage
}

/** What a worker says that was not killed. */
export interface SmsReport {
  readonly points: readonly string[]
}

/** The messages whose next step fails three times after the call. */
const isUnlucky = (id: string): boolean => id.endsWith('3')

endWithParent()
const { place, provider, policy, consumers, tasks, leaseMs, killAt, sabotage } = job<SmsJob>()
const seams = new Seams(killAt)
const store = sabotaged(await openStore(place, { seams }), sabotage)
const hapax = createHapax({ store, source: '/sms', logger: silentLogger })
const readers = consumers.map((name) =>
  hapax
    .leased(name, { leaseMs, concurrency: 8, retry: { attempts: 60, minDelayMs: 0, maxDelayMs: 30 } })
    .on(defineMessage(`sms.${name}`), async (_, ctx) => {
      const { id } = ctx.message
      const call = (key: string): Promise<string> => seams.around('provider.send', () => send(id, key))
      const sms = await ctx.effect('send', call, { timeoutMs: 1_000, ...options(policy) })
      ctx.complete(async (tx) => {
        await tx.query(insertEffect(place, name, id))
        if (isUnlucky(id) && ctx.attempt <= 3) throw new Error(`${sms} was sent, and the next step failed`)
      })
    }),
)
if (tasks.includes('deliver')) {
  seams.arm()
  for (const reader of readers) {
    const { name } = reader
    await reader.handle({ id: `${name}.m`, source: '/sms', type: `sms.${name}`, data: null })
  }
}
if (tasks.includes('work')) {
  const worker = hapax.worker({ consume: readers, takeoverMs: 600, pollMs: 20 })
  await worker.start()
  seams.arm()
  while (await waiting()) await new Promise((resolve) => setTimeout(resolve, 20))
  await worker.stop()
}
await say({ points: seams.points } satisfies SmsReport)
await hapax.close()
process.disconnect()

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
  return all.some(({ waiting, retrying }) => waiting + retrying > 0)
}
