import { Cleaner, type CleanerOptions } from './cleaner.ts'
import type { Fed } from './horizons.ts'
import type { Membership } from './membership.ts'
import type { WorkerSettings } from './options.ts'
import { type Sampler, storeSampler } from './sampler.ts'

/** What the chores need of their worker. */
interface ChoresOptions<Tx> extends Pick<CleanerOptions<Tx>, 'engine' | 'report'> {
  readonly membership: Pick<Membership, 'owns' | 'alive'>
  readonly settings: WorkerSettings<Tx>
  readonly readers: readonly Fed[]
}

/** What a worker does beside its messages: it cleans, and looks at the state of the database. */
export class Chores<Tx> {
  readonly #chores: readonly (Cleaner<Tx> | Sampler)[]

  constructor({ settings, readers, ...shared }: ChoresOptions<Tx>) {
    const { consumers, keepSentMs, cleanup } = settings
    const sampler = storeSampler({ ...shared, consumers, readers })
    const relays = [...settings.relays.keys()]
    this.#chores =
      cleanup === undefined ? [sampler] : [sampler, new Cleaner({ ...shared, consumers, relays, keepSentMs, cleanup })]
  }

  start(): void {
    for (const chore of this.#chores) chore.start()
  }

  /** Resolves when what is under way has ended. */
  async stop(): Promise<void> {
    await Promise.all(this.#chores.map((chore) => chore.stop()))
  }
}
