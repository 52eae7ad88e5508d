// Logs changes of state instead of events: a relay that sends thousands of messages a second, or fails as often, must not flood the log.

import type { Events } from '../../base/index.ts'
import { asError, messageOf, safe, safeJson } from '../../base/index.ts'
import type { Worker } from '../../contracts/index.ts'
import { type Io, paint } from './io.ts'
import { plural, when } from './text.ts'

type Level = 'info' | 'warn' | 'error'
type Part = 'store' | 'broker'

const STYLES = { info: 'green', warn: 'yellow', error: 'red' } as const
/** How often to check whether the store is back. */
const READY_MS = 500
/** How long a repeated event stays silent after it was logged. */
const QUIET_MS = 10_000

/** The log of a process that runs until it is stopped: one line per change of state, on stderr. */
export class ProcessLog {
  readonly #io: Io
  readonly #json: boolean
  readonly #troubled = new Set<Part>()
  readonly #quietUntil = new Map<string, number>()
  readonly #unsaid = new Map<string, number>()

  constructor(io: Io, asJson: boolean) {
    this.#io = io
    this.#json = asJson
  }

  info(message: string): void {
    this.#write('info', message)
  }

  warn(message: string): void {
    this.#write('warn', message)
  }

  /** Logs once that the store or the broker is unavailable; again only after it has recovered. */
  trouble(part: Part, message: string, thrown: unknown): void {
    if (this.#troubled.has(part)) return
    this.#troubled.add(part)
    this.#write('warn', `${message}: ${messageOf(asError(thrown))}`)
  }

  /** Logs that it is back, if it was reported as unavailable. */
  recovered(part: Part, message: string): void {
    if (this.#troubled.delete(part)) this.#write('info', message)
  }

  /** Logs a frequent event at most every ten seconds, with the number of those left out in between. */
  #sometimes(level: Level, kind: string, message: string): void {
    const unsaid = this.#unsaid.get(kind) ?? 0
    if (performance.now() < (this.#quietUntil.get(kind) ?? 0)) {
      this.#unsaid.set(kind, unsaid + 1)
      return
    }
    this.#unsaid.set(kind, 0)
    this.#quietUntil.set(kind, performance.now() + QUIET_MS)
    this.#write(level, unsaid === 0 ? message : `${message} (and ${unsaid} more since the last such line)`)
  }

  /** Logs the events of a relay until it is ended. */
  watch(events: Events, worker: Worker, store: string): { readonly sent: string; end(): void } {
    let sent = 0
    this.recovered('store', `${store} is back`)
    const back = setInterval(() => {
      if (worker.ready) this.recovered('store', `${store} is back`)
    }, READY_MS)
    const offs = [
      events.on('relayed', ({ relay }) => {
        sent += 1
        this.recovered('broker', `relay ${relay}: the broker is back`)
      }),
      events.on('relay-down', ({ destination, error }) =>
        this.trouble('broker', `${destination} is not available, retrying`, error),
      ),
      events.on('relay-retrying', ({ message, error }) =>
        this.#sometimes(
          'warn',
          'retrying',
          `${message.type} ${message.id} was not accepted, retrying: ${messageOf(error)}`,
        ),
      ),
      events.on('relay-failed', ({ message, held, error }) => {
        const fate = held ? 'and holds its key' : 'and is in the failed store'
        this.#sometimes(
          'error',
          'failed',
          `${message.type} ${message.id} was refused for good ${fate}: ${messageOf(error)}`,
        )
      }),
      events.on('worker-error', ({ error }) => this.trouble('store', `${store} reports an error, continuing`, error)),
    ]
    return {
      get sent() {
        return plural(sent, 'message')
      },
      end: () => {
        clearInterval(back)
        for (const off of offs) off()
      },
    }
  }

  #write(level: Level, message: string): void {
    const { err } = this.#io
    const at = new Date()
    if (this.#json) err.write(`${safeJson({ time: at, level, msg: message })}\n`)
    else {
      const label = err.isTTY ? paint(this.#io, STYLES[level], level.padEnd(5)) : level.padEnd(5)
      err.write(`${when(at)}  ${label}  ${safe(message)}\n`)
    }
  }
}
