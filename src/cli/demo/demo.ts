import { setTimeout as sleep } from 'node:timers/promises'
import { silentLogger } from '../../base/index.ts'
import { createHapax, type Hapax } from '../../index.ts'
import { type SqliteTx, sqlite } from '../../stores/sqlite/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json } from '../io/io.ts'
import { Broker } from './broker.ts'
import { chance } from './chance.ts'
import { Crew } from './crew.ts'
import { KEEP_MS, newDatabase } from './database.ts'
import { Books, createTables, OrderPlaced, placeOrder } from './shop.ts'
import { type Progress, type Result, Show } from './show.ts'
import { TAKEOVER_MS } from './worker.ts'

/** Options of `hapax demo`. */
export interface DemoOptions {
  readonly messages: number
  readonly kills?: number
  readonly seed?: number
  readonly json?: true
  readonly console?: true
}

const DEFAULT_KILLS = 5
/** How long sending all orders takes at most; the pace follows from it. */
const LONGEST_MS = 6000
const PACE_MS = 15
/** How long to wait for the last message before the audit. */
const PATIENCE_MS = 60_000
const POLL_MS = 200

/** Runs a shop through duplicates, errors and killed workers, and then audits its tables. Returns 1 if an order was lost or doubled. */
export async function demo(options: DemoOptions, io: Io): Promise<number> {
  const { messages, seed = Math.floor(Math.random() * 1_000_000) } = options
  const kills = checkedKills(options)
  const path = newDatabase()
  const hapax = createHapax({ store: sqlite({ path }), source: '/demo/shop', logger: silentLogger })
  await hapax.migrate()
  createTables(path)
  const run = new Run(hapax, { path, seed, messages, kills })
  const show = new Show(io, options.json !== true)
  show.begin({ messages, kills, seed })
  const result = await run.go((progress) => show.progress(progress))
  if (options.json) json(io, result)
  else show.end(result)
  return result.lost === 0 && result.doubled === 0 ? 0 : 1
}

/** A message that is in hand at several kills ends up in the failed store, so too many kills would only demonstrate that. */
function checkedKills({ messages, kills }: DemoOptions): number {
  const most = Math.floor(messages / 10)
  if (kills === undefined) return Math.min(DEFAULT_KILLS, most)
  if (kills > most) throw new CliError('usage', `expected --kills to be at most a tenth of --messages, got ${kills}`)
  return kills
}

interface RunOptions {
  readonly path: string
  readonly seed: number
  readonly messages: number
  readonly kills: number
}

class Run {
  readonly #hapax: Hapax<SqliteTx>
  readonly #options: RunOptions
  readonly #books: Books
  readonly #broker: Broker
  readonly #crew: Crew
  #sent = 0

  constructor(hapax: Hapax<SqliteTx>, options: RunOptions) {
    this.#hapax = hapax
    this.#options = options
    this.#books = new Books(options.path)
    this.#broker = new Broker(options.seed, OrderPlaced.type)
    this.#crew = new Crew(options, this.#broker)
  }

  async go(tick: (progress: Progress) => void): Promise<Result> {
    const started = performance.now()
    const ticking = setInterval(() => tick(this.#progress()), 100)
    try {
      await this.#relay()
      this.#crew.start()
      await Promise.race([this.#work(), this.#crew.failure])
    } finally {
      clearInterval(ticking)
      await this.#crew.stop()
      await this.#hapax.close()
    }
    return this.#result(Math.round((performance.now() - started) / 100) / 10)
  }

  /** Starts the relay, which moves the committed messages of both services to the broker. It keeps what it sent, for the audit. */
  async #relay(): Promise<void> {
    const options = { relay: this.#broker, keepSentMs: KEEP_MS, pollMs: POLL_MS, takeoverMs: TAKEOVER_MS }
    await this.#hapax.worker(options).start()
  }

  async #work(): Promise<void> {
    await this.#sendAll()
    const deadline = performance.now() + PATIENCE_MS
    while (!this.#finished() && performance.now() < deadline) await sleep(20)
  }

  async #sendAll(): Promise<void> {
    const { messages, seed } = this.#options
    const started = performance.now()
    const paceMs = Math.min(PACE_MS, LONGEST_MS / messages)
    for (let orderId = 1; orderId <= messages; orderId++) {
      const earlyMs = started + orderId * paceMs - performance.now()
      if (earlyMs > 0) await sleep(earlyMs)
      await placeOrder(this.#hapax, { orderId, cents: 100 + Math.floor(chance(seed, 'cents', orderId) * 9900) })
      this.#sent += 1
    }
  }

  /** Checked in the order in which a message moves: outbox, broker, perhaps inbox, and the outbox again for the message that follows. */
  #finished(): boolean {
    const books = this.#books
    return books.outbox() === 0 && this.#broker.idle && books.waiting() === 0 && books.outbox() === 0
  }

  #progress(): Progress {
    const { duplicates, retried, kills } = this.#crew
    const { messages } = this.#options
    return { messages, sent: this.#sent, invoices: this.#books.invoices(), duplicates, retried, kills }
  }

  #result(seconds: number): Result {
    const { path, seed } = this.#options
    const { duplicates, retried, kills } = this.#crew
    const { orders: sent, ...audit } = this.#books.audit()
    const exampleId = this.#books.firstMessageId()
    this.#books.close()
    const store = `sqlite:${path}`
    return {
      seed,
      sent,
      delivered: this.#broker.delivered,
      duplicates,
      retried,
      kills,
      ...audit,
      seconds,
      store,
      exampleId,
    }
  }
}
