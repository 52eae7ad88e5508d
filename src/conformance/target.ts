/** One thing that must hold on a server. */
export interface ConformanceCase {
  readonly topic: string
  readonly name: string
  /** Why it is not tried there. */
  readonly skip?: string | undefined
  run(): Promise<void>
}

/** A server that was reached. */
interface Reached {
  /** What it calls itself, with its version. */
  readonly server: string
  readonly cases: readonly ConformanceCase[]
}

/** A server to try, by its URL. Nothing is opened before `reach`. */
export interface Target {
  /** What will be created there, as people call it: `schemas`. */
  readonly creates: string
  /** What the names of all that begin with. */
  readonly name: string
  /** What would be tried, as far as that is known without the server. */
  list(): Promise<readonly ConformanceCase[]>
  /** Connects, and creates and removes one of them: whether the user may do so. */
  reach(): Promise<Reached>
  /** Removes everything that is left of the cases, and disconnects. */
  sweep(): Promise<void>
}

/** Makes a target. `id` tells this run from all others. */
export type OpenTarget = (url: string, id: string) => Target
