// Operations go on without the console: workers take them. Where no worker is alive, the console that began one works on it, and ends
// that when none is left: it must not keep a process that has nothing else to do.

import { pause, systemClock } from '../base/index.ts'
import type { ConsoleHapax } from './hapax.ts'

const LOOK_MS = 2_000
/** How often in a row it may be unknown whether one is left: then the database is away, or the hapax is closed. */
const MOST_FAILURES = 30

/** Works on operations while there are some. */
export class Helping {
  readonly #hapax: ConsoleHapax
  readonly #report: (error: unknown) => void
  /** Operations that were begun here, or resumed, and may not have ended. */
  readonly #begun = new Set<string>()
  #stop: AbortController | undefined
  #closed = false
  #work: Promise<void> = Promise.resolve()

  constructor(hapax: ConsoleHapax, report: (error: unknown) => void) {
    this.#hapax = hapax
    this.#report = report
  }

  /** An operation was begun here, or resumed. */
  begin(id: string): void {
    this.#begun.add(id)
    if (this.#stop !== undefined || this.#closed) return
    const stop = new AbortController()
    this.#stop = stop
    const { operations } = this.#hapax
    this.#work = operations.work({ signal: stop.signal, report: this.#report }).catch(this.#report)
    void this.#watch(stop)
  }

  /** Resolves when nothing of it uses the hapax any more. */
  async close(): Promise<void> {
    this.#closed = true
    this.#stop?.abort()
    await this.#work
  }

  async #watch(stop: AbortController): Promise<void> {
    let failures = 0
    while (!stop.signal.aborted && failures < MOST_FAILURES) {
      await pause(systemClock, LOOK_MS, stop.signal)
      try {
        for (const id of this.#begun) if (!(await this.#isRunning(id))) this.#begun.delete(id)
        failures = 0
        if (this.#begun.size === 0) break
      } catch {
        failures += 1
      }
    }
    this.#stop = undefined
    stop.abort()
  }

  async #isRunning(id: string): Promise<boolean> {
    return (await this.#hapax.operations.get(id))?.state === 'running'
  }
}
