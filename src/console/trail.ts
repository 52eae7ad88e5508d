// Who entered, and who was shown the payload of which message, in the audit. A database that does not answer, or takes no writes, must not
// keep people from looking: then this is reported instead.

import type { By, Visit } from '../admin/index.ts'
import { HapaxError, systemClock, within } from '../base/index.ts'
import type { AuditSubject } from '../contracts/index.ts'
import type { ConsoleHapax } from './hapax.ts'

/** How long an entry may take. */
const LIMIT_MS = 2_000
/** A page asks again and again: it counts as one look. */
const LOOK_MS = 3_600_000
/** When a look that could not be written is tried again: not with every refresh of the page. */
const UNWRITTEN_MS = 60_000
/** How many looks are remembered. */
const REMEMBERED = 1_000

/** Writes visits to the audit. */
export class Trail {
  readonly #hapax: Pick<ConsoleHapax, 'audit'>
  readonly #report: (error: unknown) => void
  readonly #now: () => number
  /** Until when another look of a person at a message is no new one. */
  readonly #looks = new Map<string, number>()

  constructor(
    hapax: Pick<ConsoleHapax, 'audit'>,
    report: (error: unknown) => void,
    now: () => number = () => performance.now(),
  ) {
    this.#hapax = hapax
    this.#report = report
    this.#now = now
  }

  /** Returns whether the visit was written. Never rejects. */
  async record(visit: Visit, by: By, about: AuditSubject = {}): Promise<boolean> {
    const writing = this.#hapax.audit.record(visit, by, about)
    const late = (): never => {
      writing.catch(() => {})
      throw new HapaxError('busy', `the audit could not be written within ${LIMIT_MS} ms`)
    }
    try {
      await within(systemClock, LIMIT_MS, writing, late, 'awake')
      return true
    } catch (error) {
      this.#report(error)
      return false
    }
  }

  /** Somebody is about to be shown the payload of a message. */
  async look(actor: string, about: AuditSubject): Promise<void> {
    const key = JSON.stringify([actor, about])
    if (this.#now() < (this.#looks.get(key) ?? 0)) return
    this.#remember(key, LOOK_MS)
    if (!(await this.record('look', { actor }, about))) this.#remember(key, UNWRITTEN_MS)
  }

  #remember(key: string, ms: number): void {
    this.#looks.delete(key)
    this.#looks.set(key, this.#now() + ms)
    const [oldest] = this.#looks.keys()
    if (this.#looks.size > REMEMBERED && oldest !== undefined) this.#looks.delete(oldest)
  }
}
