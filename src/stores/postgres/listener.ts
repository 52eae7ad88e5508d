// LISTEN on a connection of its own. Notifications only save time: whatever is lost, workers find by looking.

import { Socket } from 'node:net'
import { contained, heard, loadClient, pause, systemClock, within } from '../../base/index.ts'
import type { ListenOptions } from '../../contracts/index.ts'
import { urlsOf } from './hosts.ts'

/** The part of a `pg` client that is used. */
interface ListenClient {
  /** As the server said at the start, or as a pooler made it up. */
  readonly processID?: number | null
  connect(): Promise<unknown>
  query(text: string): Promise<{ readonly rows: readonly { readonly pid?: unknown }[] }>
  end(): Promise<void>
  on(event: 'notification', listener: (message: { readonly payload?: string | undefined }) => void): unknown
  on(event: 'error' | 'end', listener: () => void): unknown
}

/** Listens until it is ended: connects again, with pauses, whenever the connection breaks. */
export class PgListener {
  /** One for each host; a server that takes no writes does not listen either. */
  readonly #urls: readonly string[]
  readonly #options: ListenOptions
  readonly #ending = new AbortController()
  readonly #running: Promise<void>
  #client: ListenClient | undefined

  constructor(url: string, options: ListenOptions) {
    this.#urls = urlsOf('url', url)
    this.#options = options
    this.#running = this.#run()
  }

  async end(): Promise<void> {
    this.#ending.abort()
    void this.#client?.end().catch(() => {})
    await within(systemClock, END_MS, this.#running, () => {})
  }

  async #run(): Promise<void> {
    for (let [failures, turn] = [1, 0]; !this.#ended; failures++, turn++) {
      const began = performance.now()
      try {
        const connected = await this.#connected(this.#urls[turn % this.#urls.length] ?? '')
        if (!connected) return this.#options.deaf('a pooler is in between, which does not pass notifications on')
      } catch {
        // Tried again.
      }
      if (performance.now() - began > STEADY_MS) failures = 0
      const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures) * (0.5 + Math.random() / 2)
      await pause(systemClock, pauseMs, this.#ending.signal)
    }
  }

  get #ended(): boolean {
    return this.#ending.signal.aborted
  }

  /** Listens for as long as the connection lasts. False: it is not a connection to the server itself. */
  async #connected(url: string): Promise<boolean> {
    const broken = Promise.withResolvers<void>()
    const client = await open(url)
    heard(client)
    client.on('error', () => broken.resolve())
    client.on('end', () => broken.resolve())
    try {
      const until = <T>(work: Promise<T>): Promise<T> => inTime(work, broken.promise)
      await until(client.connect())
      this.#client = client
      // LISTEN through a pooler would listen on a connection of others.
      const { rows } = await until(client.query('select pg_backend_pid() as pid'))
      if (Number(rows[0]?.pid) !== client.processID) return false
      const probe = new Probe()
      client.on('notification', ({ payload = '' }) => {
        if (!payload.startsWith(PROBE)) this.#options.heard(payload)
        else probe.heard(payload)
      })
      await until(client.query(`listen "${this.#options.channel}"`))
      const heardItself = async (): Promise<void> => {
        const came = probe.again()
        await this.#options.tell(probe.text)
        await until(came)
      }
      await heardItself()
      this.#options.connected(String(client.processID))
      // What was said before nobody heard.
      this.#options.heard(undefined)
      await this.#watch(heardItself, broken.promise)
    } finally {
      this.#client = undefined
      this.#options.connected(undefined)
      await within(systemClock, END_MS, client.end(), () => {}).catch(() => {})
    }
    return true
  }

  /**
   * Speaks to itself now and then: the link may be dead although no side has closed it, or lead to a server that is not the one any
   * more which others speak to.
   */
  async #watch(heardItself: () => Promise<void>, broken: Promise<void>): Promise<void> {
    const over = new AbortController()
    const stop = (): void => over.abort()
    void broken.then(stop)
    this.#ending.signal.addEventListener('abort', stop, { once: true })
    try {
      while (!over.signal.aborted && !this.#ended) {
        await pause(systemClock, WATCH_MS, over.signal)
        if (!over.signal.aborted) await heardItself()
      }
    } finally {
      this.#ending.signal.removeEventListener('abort', stop)
    }
  }
}

/** A notification to oneself. */
class Probe {
  readonly text: string = `${PROBE}${crypto.randomUUID()}`
  #resolve = (): void => {}

  /** Resolves when it comes the next time. */
  again(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#resolve = resolve
    return promise
  }

  heard(text: string): void {
    if (text === this.text) this.#resolve()
  }
}

async function open(url: string): Promise<ListenClient> {
  const pg = await loadClient('postgres({ url })', ['pg'], () => import('pg'))
  return new pg.default.Client({
    connectionString: url,
    stream: () => contained(new Socket()),
    connectionTimeoutMillis: ANSWER_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: ANSWER_MS,
    application_name: 'hapax listener',
  })
}

async function inTime<T>(work: Promise<T>, broken: Promise<void>): Promise<T> {
  // If the connection breaks first, nobody waits for the work.
  work.catch(() => {})
  const lost = broken.then((): never => {
    throw new Error('the connection broke')
  })
  lost.catch(() => {})
  return within(systemClock, ANSWER_MS, Promise.race([work, lost]), () => {
    throw new Error('no answer')
  })
}

/** Begins what a listener says to itself. */
const PROBE = 'probe '
const ANSWER_MS = 10_000
const END_MS = 5_000
/** How often the link is tested while nothing comes. */
const WATCH_MS = 30_000
/** After so long a connection that breaks is not taken for one that cannot be made. */
const STEADY_MS = 60_000
const FIRST_PAUSE_MS = 50
const MAX_PAUSE_MS = 60_000
