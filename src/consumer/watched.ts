// How an instrument watches the attempts of a consumer.

import type { Findings, Messages, Running, SafeInstrument } from '../base/index.ts'
import type { InboxRow, Outcome } from '../contracts/index.ts'
import { factsOfStored, type StoredMessage } from '../message/index.ts'
import type { Scope } from '../transaction/index.ts'
import { callHandlers } from './calling.ts'
import type { Job } from './handlers.ts'

/** Who watches, and whose attempts. */
export interface Watching {
  readonly instrument: SafeInstrument
  readonly consumer: string
  /** Whether the messages come from the inbox. */
  readonly stored?: boolean
}

/** An attempt that an instrument watches, at one message or at a group. */
export class WatchedAttempt {
  readonly #watching: Watching
  readonly #running: Running

  constructor(watching: Watching, running: Running) {
    this.#watching = watching
    this.#running = running
  }

  /** Rows have been claimed. */
  claimed(rows: readonly InboxRow[]): void {
    this.#running.add({ messages: factsOfRows(rows) })
  }

  /** The group failed, and its messages are tried in smaller ones. */
  splits(error: unknown): void {
    this.#running.end({ error })
  }

  /** Runs work in the context of the attempt, wherever it is called from. */
  enter<T>(work: () => T): T {
    return this.#running.enter(work)
  }

  /** Calls the handlers of a group, each in the sight of the instrument. */
  callHandlers<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): unknown {
    const each = jobs.length > 1 && this.#watching.instrument.wants('handle')
    if (!each) return this.enter(() => callHandlers(jobs, scope))
    return this.enter(() => callHandlers(jobs, { ...scope, observe: this.#handle }))
  }

  readonly #handle = (messages: readonly StoredMessage[], call: () => unknown): unknown => {
    const { instrument, consumer } = this.#watching
    return instrument.around('handle', { ...placeOf(consumer), messages: factsOfStored(messages) }, call)
  }
}

/** Calls the handlers of a group; in the sight of an instrument, if there is one. */
export function callWatched<Tx>(
  jobs: readonly Job<Tx>[],
  scope: Scope<Tx>,
  watch: WatchedAttempt | undefined,
): unknown {
  return watch === undefined ? callHandlers(jobs, scope) : watch.callHandlers(jobs, scope)
}

/** Runs work in the context of an attempt, so that what a hook or a listener does belongs to it. */
export function enter<T>(watch: WatchedAttempt | undefined, work: () => T): T {
  return watch === undefined ? work() : watch.enter(work)
}

/** Runs one attempt. Undefined messages have to be claimed first. */
export async function watched<T extends ReadonlyMap<string, Outcome> | readonly Outcome[] | Outcome>(
  watching: Watching,
  messages: Messages | undefined,
  work: (attempt: WatchedAttempt) => Promise<T>,
): Promise<T> {
  const { instrument, consumer, stored = false } = watching
  const facts = { ...placeOf(consumer), stored, ...(messages && { messages }) }
  return instrument.around('process', facts, async (running) => {
    const outcomes = await work(new WatchedAttempt(watching, running))
    running.add(findingsOf('status' in outcomes ? [outcomes] : [...outcomes.values()]))
    return outcomes
  })
}

/** The inbox is a queue of hapax's own, with the name of its consumer. */
export function placeOf(consumer: string): {
  readonly system: string
  readonly destination: string
  readonly consumer: string
} {
  return { system: 'hapax', destination: consumer, consumer }
}

/** What became of messages. */
export function findingsOf(outcomes: readonly Outcome[]): Findings {
  const error = outcomes.find((each) => each.error !== undefined)?.error
  return { outcomes: outcomes.map(({ status }) => status), ...(error && { error }) }
}

/** The messages of jobs. */
export function factsOfJobs(jobs: readonly Pick<Job<never>, 'stored' | 'attempt'>[]): Messages {
  return factsOfStored(
    jobs.map(({ stored }) => stored),
    (index) => jobs[index]?.attempt,
  )
}

/** The messages of rows of the inbox. */
export function factsOfRows(rows: readonly InboxRow[]): Messages {
  return factsOfStored(
    rows.map(({ message }) => message),
    (index) => (rows[index]?.attempts ?? 0) + 1,
  )
}
