import { Child } from '../../support/child.ts'
import type { Place } from '../../support/databases.ts'
import { seeded } from '../../support/seeded.ts'
import { type Ledger, ledgerTables } from './ledger.ts'
import { Post } from './post.ts'
import type { WorkerReport } from './shift.ts'
import type { WorkerJob } from './worker-child.ts'

/** What is done to the workers, and how often. */
export interface Torment {
  readonly seed: number
  readonly workers: number
  readonly takeoverMs: number
  /** How long a worker is left alone between two faults, about. */
  readonly calmMs: number
  /** How long a killed worker stays away at most. */
  readonly awayMs: number
  /** The time between two cuts of connections, about. */
  readonly cutMs: number
  readonly deadlineMs: number
}

/** What was done. */
export interface FaultCounts {
  kill: number
  pause: number
  cut: number
}

/** Worker processes that are killed, paused past their heartbeat and cut off from the database until it is enough. */
export class Crew {
  readonly counts: FaultCounts = { kill: 0, pause: 0, cut: 0 }
  readonly #place: Place
  readonly #torment: Torment
  readonly #ledger: Ledger
  readonly #workers: readonly Post<WorkerReport>[]
  readonly #enough = new AbortController()
  /** Connections that are not of hapax. */
  #spared: readonly number[] = []
  #loops: Promise<void>[] = []
  #bothKinds: Promise<unknown> = Promise.resolve()

  constructor(place: Place, torment: Torment, ledger: Ledger) {
    this.#place = place
    this.#torment = torment
    this.#ledger = ledger
    this.#workers = Array.from({ length: torment.workers }, (_, number) => new Post(() => this.#hire(number)))
  }

  async start(): Promise<void> {
    this.#spared = await this.#connections()
    await Promise.all(this.#workers.map((worker) => worker.fill()))
    const haunted = this.#workers.map(() => Promise.withResolvers<void>())
    this.#bothKinds = Promise.all(haunted.map(({ promise }) => promise))
    this.#loops = [...haunted.map(({ resolve }, number) => this.#haunt(number, resolve)), this.#cutAgainAndAgain()]
  }

  /** Rejects when a fault could not be done, or a worker ended by itself. */
  failure(): Promise<never> {
    return Promise.all(this.#loops).then(() => new Promise<never>(() => {}))
  }

  /** No more faults once every worker had both kinds; then every worker runs. */
  async enough(): Promise<void> {
    await Promise.race([this.#bothKinds, Promise.all(this.#loops)])
    this.#enough.abort()
    await Promise.all(this.#loops)
  }

  /** Ends the workers the gentle way. */
  async dismiss(): Promise<number> {
    const reports = await Promise.all(this.#workers.map((worker) => worker.dismiss()))
    return reports.reduce((sum, { errors }) => sum + errors, 0)
  }

  /** Whatever has happened: nothing is left running. */
  async destroy(): Promise<void> {
    this.#enough.abort()
    await Promise.allSettled(this.#loops)
    await Promise.all(this.#workers.map((worker) => worker.destroy()))
  }

  #hire(number: number): Child<WorkerReport> {
    const { seed, takeoverMs, deadlineMs } = this.#torment
    const job: WorkerJob = { place: this.#place, seed, worker: number, takeoverMs }
    return new Child(new URL('./worker-child.ts', import.meta.url), job, deadlineMs)
  }

  async #haunt(number: number, bothKinds: () => void): Promise<void> {
    const random = seeded(this.#torment.seed + number)
    for (let turn = number; await this.#calm(this.#torment.calmMs * (0.5 + random())); turn++) {
      // Each has both early on, then either.
      const pauses = turn - number < 2 ? turn % 2 === 0 : random() < 0.5
      await (pauses ? this.#pause(number, random) : this.#kill(number, random))
      if (turn - number === 1) bothKinds()
    }
  }

  async #kill(number: number, random: () => number): Promise<void> {
    const worker = this.#workers[number] as Post<WorkerReport>
    await Promise.all([worker.kill(), this.#note('kill', number)])
    await this.#calm(random() * this.#torment.awayMs)
    await worker.fill()
  }

  async #pause(number: number, random: () => number): Promise<void> {
    const worker = this.#workers[number] as Post<WorkerReport>
    worker.signal('SIGSTOP')
    await this.#note('pause', number)
    await this.#calm(this.#torment.takeoverMs * (1.1 + random() / 2))
    worker.signal('SIGCONT')
  }

  async #cutAgainAndAgain(): Promise<void> {
    const random = seeded(this.#torment.seed - 1)
    while (await this.#calm(this.#torment.cutMs * (0.5 + random()))) {
      const ids = (await this.#connections()).filter((id) => !this.#spared.includes(id))
      const doomed = random() < 0.1 ? ids : ids.slice(Math.floor(random() * ids.length)).slice(0, 1)
      for (const id of doomed) await this.#cut(id)
    }
  }

  async #connections(): Promise<number[]> {
    const { store, schema, url } = this.#place
    const list =
      store === 'postgres'
        ? `select pid as id from pg_stat_activity where application_name = '${schema}' order by pid`
        : `select id from information_schema.processlist where db = '${new URL(url).pathname.slice(1)}' order by id`
    return (await this.#ledger.query(list)).map(({ id }) => Number(id))
  }

  async #cut(id: number): Promise<void> {
    this.counts.cut += 1
    const cut = this.#place.store === 'postgres' ? `select pg_terminate_backend(${id})` : `kill connection ${id}`
    // One that has ended in between is an error of the statement.
    await this.#ledger.query(cut).catch(() => {})
  }

  async #note(kind: 'kill' | 'pause', number: number): Promise<void> {
    this.counts[kind] += 1
    await this.#ledger.query(
      `insert into ${ledgerTables(this.#place).faults} (kind, worker) values ('${kind}', ${number})`,
    )
  }

  /** Whether the time passed before it was enough. */
  #calm(ms: number): Promise<boolean> {
    const { signal } = this.#enough
    if (signal.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        resolve(!signal.aborted)
      }
      const timer = setTimeout(end, ms)
      signal.addEventListener('abort', end)
    })
  }
}
