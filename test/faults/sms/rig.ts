import { defineMessage, effectKey, type Hapax } from 'hapax'
import { expect } from 'vitest'
import { Child } from '../../support/child.ts'
import type { RigTx } from '../../support/databases.ts'
import { openHapax, type Scene } from './place.ts'
import type { ProviderJob, ProviderReady, Sent } from './provider-child.ts'
import { Sender } from './sender.ts'
import type { Found } from './verdict.ts'
import type { SmsJob, SmsReport } from './worker-child.ts'

/** Shorter than any pause of a process here. */
export const LEASE_MS = 800

/** A provider in a process of its own, which nobody kills before the end. */
export class Provider implements AsyncDisposable {
  readonly url: string
  readonly #child: Child<ProviderReady>

  private constructor(child: Child<ProviderReady>, url: string) {
    this.#child = child
    this.url = url
  }

  static async start(job: Partial<ProviderJob> & Pick<ProviderJob, 'honoursKeys'>): Promise<Provider> {
    const whole: ProviderJob = { seed: 1, trouble: { lost: 0, late: 0, refused: 0 }, lateMs: 2 * LEASE_MS, ...job }
    const child = new Child<ProviderReady>(new URL('./provider-child.ts', import.meta.url), whole, 1_200_000)
    return new Provider(child, (await child.next()).url)
  }

  async log(): Promise<Sent> {
    return (await (await fetch(`${this.url}/log`)).json()) as Sent
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#child.ended
  }
}

export function startWorker(job: SmsJob, deadlineMs = 240_000): Child<SmsReport> {
  return new Child(new URL('./worker-child.ts', import.meta.url), job, deadlineMs)
}

/** Runs a worker that nobody kills. */
export async function runWorker(job: SmsJob, deadlineMs?: number): Promise<readonly string[]> {
  const child = startWorker(job, deadlineMs)
  const { points } = await child.next()
  expect(await child.ended).toMatchObject({ code: 0, errors: '' })
  return points
}

/** A hapax of the test's own, for what people and publishers do. */
export async function office({ place }: Scene): Promise<Hapax<RigTx> & AsyncDisposable> {
  const hapax = await openHapax(place)
  return Object.assign(hapax, { [Symbol.asyncDispose]: () => hapax.close() })
}

/** Where the messages of a story are until they are settled: in the inbox, or, on a store without one, with their sender. */
export interface Origin extends AsyncDisposable {
  readonly sender: string | undefined
}

/** Asks a consumer to send messages. */
export async function request(scene: Scene, hapax: Hapax<RigTx>, consumer: string, ids: string[]): Promise<Origin> {
  if (scene.place.store === 'redis') {
    const sender = await Sender.start(ids)
    return { sender: sender.url, [Symbol.asyncDispose]: () => sender[Symbol.asyncDispose]() }
  }
  const type = `sms.${consumer}`
  const inbox = hapax.consumer(consumer, { receive: 'store' }).on(defineMessage(type), () => {})
  const outcomes = await inbox.handleMany(ids.map((id) => ({ id, source: '/sms', type, data: null })))
  expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['stored']))
  return { sender: undefined, [Symbol.asyncDispose]: async () => {} }
}

/** What is there in the end. */
export async function find(scene: Scene, hapax: Hapax<RigTx>, provider: Provider, ids: string[]): Promise<Found> {
  const failed: [string, string][] = []
  for (let before: string | undefined; ; ) {
    const page = await hapax.failed.list({ limit: 100, ...(before === undefined ? {} : { before }) })
    if (page.length === 0) break
    for (const { message, reason } of page) failed.push([message.id, reason])
    before = page.at(-1)?.seq
  }
  const { messages } = await provider.log()
  return { sent: new Map(Object.entries(messages)), done: await scene.settled(ids), failed: new Map(failed) }
}

/** A person looks at the provider's own list and says of every call that nobody knew about whether it happened. */
export async function decide(hapax: Hapax<RigTx>, provider: Provider): Promise<number> {
  const { keys } = await provider.log()
  let decided = 0
  for (;;) {
    const page = await hapax.failed.list({ reason: 'unknown-effect', limit: 100 })
    if (page.length === 0) return decided
    for (const { seq, consumer, message } of page) {
      const key = effectKey(consumer, message, 'send')
      if (keys[key] === undefined) await hapax.failed.settle(seq, { effect: 'send', as: 'not-done' })
      else await hapax.failed.settle(seq, { effect: 'send', as: 'done', result: `SM-${key}` })
      decided += 1
    }
  }
}
