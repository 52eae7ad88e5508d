import { setTimeout as delay } from 'node:timers/promises'
import { Child } from '../../support/child.ts'
import type { Place } from '../../support/databases.ts'
import type { PrivateServer } from '../../support/private-server.ts'
import { type Ledger, ledgerTables } from '../soak/ledger.ts'
import { Post } from '../soak/post.ts'
import type { WorkerReport } from '../soak/shift.ts'
import type { BrokerPlace } from './broker-place.ts'
import type { ConsumerJob } from './consumer-child.ts'
import type { RelayJob } from './relay-child.ts'
import type { Sabotage } from './sabotage.ts'
import type { Fault, FaultOptions, Round } from './timetable.ts'

/** Where a soak of a broker happens. */
export interface Scene {
  readonly place: Place
  readonly broker: BrokerPlace
  readonly server: Pick<PrivateServer, 'kill' | 'stop' | 'start'>
}

/** Who works there, and how. */
export interface CrewOptions extends FaultOptions {
  readonly takeoverMs: number
  readonly deadlineMs: number
  readonly sabotage?: Sabotage
}

/** What the faults are called in the ledger. */
export type FaultKind = 'broker kill' | 'broker restart' | 'kill' | 'relay kill'

/** Consumers and relays that are killed, beside a broker that is. */
export class Crew {
  readonly #scene: Scene
  readonly #ledger: Ledger
  readonly #consumers: readonly Post<WorkerReport>[]
  readonly #relays: readonly Post<WorkerReport>[]

  constructor(
    scene: Scene,
    { seed, consumers, relays, takeoverMs, deadlineMs, sabotage }: CrewOptions,
    ledger: Ledger,
  ) {
    const { place, broker } = scene
    const posts = (count: number, file: string, job: (worker: number) => ConsumerJob | RelayJob) =>
      Array.from({ length: count }, (_, worker) => {
        return new Post<WorkerReport>(() => new Child(new URL(file, import.meta.url), job(worker), deadlineMs))
      })
    this.#scene = scene
    this.#ledger = ledger
    this.#consumers = posts(consumers, './consumer-child.ts', (worker) => {
      return { place, broker, seed, worker, takeoverMs, sabotage }
    })
    this.#relays = posts(relays, './relay-child.ts', () => ({ place, broker, takeoverMs, sabotage }))
  }

  /** Consumers before relays, because they declare where messages go. */
  async start(): Promise<void> {
    await Promise.all(this.#consumers.map((post) => post.fill()))
    await Promise.all(this.#relays.map((post) => post.fill()))
  }

  /** Resolves when everything that was broken in this round works again. */
  async torment({ broker, consumers, relays }: Round): Promise<void> {
    const start = performance.now()
    const until = (ms: number): Promise<void> => delay(Math.max(0, start + ms - performance.now()))
    await Promise.all([
      this.#breakBroker(broker, until),
      ...this.#consumers.map((post, who) => this.#haunt(post, 'kill', who, consumers[who] ?? [], until)),
      ...this.#relays.map((post, who) => this.#haunt(post, 'relay kill', who, relays[who] ?? [], until)),
    ])
  }

  /** Ends all of them the gentle way; answers how often something went wrong on the way. */
  async dismiss(): Promise<number> {
    const reports = await Promise.all([...this.#consumers, ...this.#relays].map((post) => post.dismiss()))
    return reports.reduce((sum, { errors }) => sum + errors, 0)
  }

  /** Whatever has happened: nothing is left running. */
  async destroy(): Promise<void> {
    await Promise.all([...this.#consumers, ...this.#relays].map((post) => post.destroy()))
  }

  async #breakBroker({ how, atMs, awayMs }: Round['broker'], until: (ms: number) => Promise<void>): Promise<void> {
    const { server } = this.#scene
    await until(atMs)
    await this.#note(`broker ${how}`, 0)
    await (how === 'kill' ? server.kill('SIGKILL') : server.stop())
    await delay(awayMs)
    await server.start()
  }

  async #haunt(
    post: Post<WorkerReport>,
    kind: FaultKind,
    who: number,
    faults: readonly Fault[],
    until: (ms: number) => Promise<void>,
  ): Promise<void> {
    for (const { atMs, awayMs } of faults) {
      await until(atMs)
      await Promise.all([post.kill(), this.#note(kind, who)])
      await delay(awayMs)
      await post.fill()
    }
  }

  async #note(kind: FaultKind, who: number): Promise<void> {
    const { faults } = ledgerTables(this.#scene.place)
    await this.#ledger.query(`insert into ${faults} (kind, worker) values ('${kind}', ${who})`)
  }
}
