import { retryDelay } from '../../core/backoff.ts'
import type { Reader, Subscription, SubscriptionFeatures } from '../../core/broker.ts'
import { pause } from '../../core/clock.ts'
import { Deliveries } from '../../core/deliveries.ts'
import { HapaxError } from '../../core/errors.ts'
import { type Random, systemRandom } from '../../core/random.ts'
import { type Declare, doubts, evict, makeSure, removed } from './group.ts'
import type { EntryHandle } from './hand.ts'
import { Link, type LinkOptions } from './link.ts'
import { Member, PREFIX } from './member.ts'
import type { ReadingSettings } from './reading.ts'
import { Session } from './session.ts'

/** What a group needs, with every default filled in. */
export interface GroupSettings extends ReadingSettings {
  readonly from: 'beginning' | 'now'
  readonly declare: Declare
  readonly single: boolean
  readonly links: LinkOptions
}

/** Reads a group of a stream. */
export class GroupSubscription implements Subscription {
  readonly name: string
  readonly features: SubscriptionFeatures
  readonly #settings: GroupSettings

  constructor(settings: GroupSettings) {
    this.#settings = settings
    this.name = `redis stream ${settings.stream}, group ${settings.group}`
    // Redis counts deliveries, but draws no conclusion from that.
    const never = { horizonMs: undefined, limitsRejects: false }
    this.features = { ordersKeys: settings.single, marksRedelivered: true, ...never }
  }

  async open(options: Parameters<Subscription['open']>[0]): Promise<Reader> {
    const reader = new GroupReader(this.#settings, options)
    await reader.start()
    return reader
  }
}

/** Reads through one session after the other. */
class GroupReader implements Reader {
  /** An entry that is not acked may come for ever. */
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
    const session = await this.#connect(undefined)
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
      session = await this.#again(session, error.code)
    }
  }

  /** Tries until it works. What goes wrong is reported when it is something else than before. */
  async #again(lost: Session, reported: string): Promise<Session | undefined> {
    const { signal } = this.#stopped
    for (let attempt = 1, last = reported; ; attempt++) {
      await pause(this.#settings.clock, retryDelay(AGAIN, attempt, this.#random), signal)
      if (signal.aborted) return undefined
      try {
        return await this.#connect(lost)
      } catch (error) {
        const { code } = error as HapaxError
        if (code !== last) this.#report(error as HapaxError)
        last = code
      }
    }
  }

  async #connect(lost: Session | undefined): Promise<Session> {
    const links: Link[] = []
    try {
      const open = async (): Promise<Link> => {
        const link = await Link.open(this.#settings.links)
        links.push(link)
        return link
      }
      const [reading, control] = await Promise.all([open(), open()])
      return await this.#begin(reading, control, lost)
    } catch (error) {
      for (const link of links) link.close()
      throw error
    }
  }

  async #begin(reading: Link, control: Link, lost: Session | undefined): Promise<Session> {
    const settings = this.#settings
    const member = new Member(control, settings, `${PREFIX}${this.#random.token()}`)
    const gone = lost === undefined ? [] : await evict(control, settings, lost)
    if (gone.length > 0) this.#report(removed(settings, gone))
    if (lost === undefined) for (const error of await doubts(control)) this.#report(error)
    await makeSure(control, settings, lost?.finished)
    const clientId = String(await reading.call(['CLIENT', 'ID']))
    if (this.#stopped.signal.aborted) throw new HapaxError('closed', 'the reader was closed')
    const deliveries = this.#deliveries
    const session = new Session({
      settings,
      reading,
      control,
      clientId,
      member,
      lost,
      deliveries,
      report: this.#report,
    })
    this.#session = session
    session.start()
    return session
  }
}

const AGAIN = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 100, maxDelayMs: 10_000, factor: 2 }
