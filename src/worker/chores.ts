import { Cleaner, type CleanerOptions } from './cleaner.ts'
import type { Fed } from './horizons.ts'
import type { Membership } from './membership.ts'
import { Minutes } from './minutes.ts'
import { OperationKeeper } from './operations/index.ts'
import type { WorkerSettings } from './options.ts'
import { storeSampler } from './sampler.ts'

/** What the chores need of their worker. */
interface ChoresOptions<Tx> extends Pick<CleanerOptions<Tx>, 'engine' | 'report'> {
  readonly membership: Pick<Membership, 'owns' | 'alive'>
  readonly settings: WorkerSettings<Tx>
  readonly readers: readonly Fed[]
}

/** One of them. */
interface Chore {
  start(): void
  stop(): Promise<void>
}

/** What a worker does beside its messages: it cleans, looks at the state of the database, and works on operations. */
export class Chores<Tx> {
  readonly #operations: OperationKeeper
  readonly #chores: readonly Chore[]

  constructor({ settings, readers, ...shared }: ChoresOptions<Tx>) {
    const { consumers, keepSentMs, cleanup } = settings
    const { engine, membership, report } = shared
    const minutes = new Minutes({ ...engine, store: engine.store.samples, report })
    const sampler = storeSampler({ ...shared, consumers, readers, saw: (state) => minutes.saw(state) })
    const relays = [...settings.relays.keys()]
    this.#operations = new OperationKeeper({
      engine: { ...engine, wake: () => engine.wake(undefined) },
      isMine: () => membership.alive && membership.owns('operations', ({ stuck }) => !stuck),
      report,
    })
    const cleaner = cleanup === undefined ? [] : [new Cleaner({ ...shared, consumers, relays, keepSentMs, cleanup })]
    this.#chores = [sampler, minutes, this.#operations, ...cleaner]
  }

  /** An operation has begun in this process. */
  begun(): void {
    this.#operations.wake()
  }

  start(): void {
    for (const chore of this.#chores) chore.start()
  }

  /** Resolves when what is under way has ended. */
  async stop(): Promise<void> {
    await Promise.all(this.#chores.map((chore) => chore.stop()))
  }
}
