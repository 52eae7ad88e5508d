import { HapaxError, pause, type Random, retryDelay, systemRandom } from '../../base/index.ts'
import type { Address, Reader, Subscription, SubscriptionFeatures } from '../../contracts/index.ts'
import { Deliveries } from '../kit/index.ts'
import { brokerError } from './errors.ts'
import { Link, type LinkOptions } from './link.ts'
import { type Declare, doubts, evict, makeSure, removed } from './reading/group.ts'
import type { EntryHandle } from './reading/hand.ts'
import { Member, PREFIX } from './reading/member.ts'
import type { ReadingSettings } from './reading/reading.ts'
import { type Previous, Session } from './reading/session.ts'

/** What a group needs, with every default filled in. */
export interface GroupSettings extends ReadingSettings {
  readonly from: 'beginning' | 'now'
  readonly declare: Declare
  readonly single: boolean
  readonly links: LinkOptions
}

/** Reads a group of a stream. */
export class RedisStreamsSubscription implements Subscription {
  readonly name: string
  readonly address: Address
  readonly features: SubscriptionFeatures
  readonly #settings: GroupSettings

  constructor(settings: GroupSettings) {
    this.#settings = settings
    this.name = `redis stream ${settings.stream}, group ${settings.group}`
    this.address = { system: 'redis', name: settings.stream }
    // Redis counts deliveries but has no limit for them.
    const never = { horizonMs: undefined, limitsRejects: false }
    this.features = { ordersKeys: settings.single, marksRedelivered: true, ...never }
  }

  async open(options: Parameters<Subscription['open']>[0]): Promise<Reader> {
    const reader = new RedisStreamsReader(this.#settings, options)
    await reader.start()
    return reader
  }
}

/** Reads through one session after another: each lasts until a link is lost. */
class RedisStreamsReader implements Reader {
  /** An entry that is not acked may be redelivered at any time. */
  readonly horizonMs = undefined
  readonly #settings: GroupSettings
  readonly #report: (error: HapaxError) => void
  readonly #deliveries: Deliveries<EntryHandle>
  readonly #random: Random = systemRandom
  readonly #stopped = new AbortController()
  #session: Session | undefined

  constructor(settings: GroupSettings, { prefetch, receive, report }: Parameters<Subscription['open']>[0]) {
    this.#settings = settings
    this.#report = report
    this.#deliveries = new Deliveries({ prefetch, receive, answered: () => this.#session?.answered() })
  }

  async start(): Promise<void> {
    const session = await this.#connect()
    void this.#supervise(session)
  }

  async pause(): Promise<void> {
    this.#stopped.abort()
    this.#deliveries.pause()
    await this.#session?.stopReading()
  }

  async close(): Promise<void> {
    this.#stopped.abort()
    this.#deliveries.pause()
    await this.#session?.close()
    this.#deliveries.forget()
  }

  async #supervise(first: Session): Promise<void> {
    for (let session: Session | undefined = first; session !== undefined; ) {
      const error = await session.ended
      this.#deliveries.forget()
      if (this.#stopped.signal.aborted) return
      this.#report(error)
      session = await this.#again(session.remains, error.code)
    }
  }

  /** Tries until a session starts. A failure is reported if its code differs from the one before. */
  async #again(previous: Previous, reported: string): Promise<Session | undefined> {
    const { signal } = this.#stopped
    for (let attempt = 1, last = reported; ; attempt++) {
      await pause(this.#settings.clock, retryDelay(AGAIN, attempt, this.#random), signal)
      if (signal.aborted) return undefined
      try {
        return await this.#connect(previous)
      } catch (error) {
        const failure = brokerError(error)
        if (failure.code !== last && !signal.aborted) this.#report(failure)
        last = failure.code
      }
    }
  }

  async #connect(previous?: Previous): Promise<Session> {
    const [reading, control] = await openBoth(this.#settings.links)
    try {
      return await this.#begin(reading, control, previous)
    } catch (error) {
      for (const link of [reading, control]) link.close()
      throw error
    }
  }

  async #begin(reading: Link, control: Link, previous: Previous | undefined): Promise<Session> {
    const settings = this.#settings
    const gone = previous === undefined ? [] : await evict(control, settings, previous.name)
    if (gone.length > 0) this.#report(removed(settings, gone))
    if (previous === undefined) for (const error of await doubts(control)) this.#report(error)
    await makeSure(control, settings, previous?.finished)
    const member = new Member(control, settings, `${PREFIX}${this.#random.token()}`)
    const clientId = String(await reading.call(['CLIENT', 'ID']))
    if (this.#stopped.signal.aborted) throw new HapaxError('closed', 'the reader was closed')
    const to = { deliveries: this.#deliveries, report: this.#report }
    const session = new Session({ settings, reading, control, clientId, member, previous, ...to })
    this.#session = session
    session.start()
    return session
  }
}

/** Two links: one blocks while it waits for new entries, and the other is for everything else. */
async function openBoth(options: LinkOptions): Promise<readonly [Link, Link]> {
  const opening = [Link.open(options), Link.open(options)] as const
  const settled = await Promise.allSettled(opening)
  if (settled.some(({ status }) => status === 'rejected')) {
    for (const each of settled) if (each.status === 'fulfilled') each.value.close()
  }
  // Rejects if either of them failed.
  return Promise.all(opening)
}

const AGAIN = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 100, maxDelayMs: 10_000, factor: 2 }
