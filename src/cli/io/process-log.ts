import type { Events } from '../../base/index.ts'
import { asError, messageOf, safe, safeJson } from '../../base/index.ts'
import type { Worker } from '../../contracts/index.ts'
import { type Io, paint } from './io.ts'
import { plural, when } from './text.ts'

type Level = 'info' | 'warn' | 'error'
type Part = 'store' | 'broker'

const STYLES = { info: 'green', warn: 'yellow', error: 'red' } as const
const READY_MS = 500
const QUIET_MS = 10_000

/** The log of a process that runs until it is stopped: one line for each change, on stderr. */
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

  /** Says once that something is not there, until it is back. */
  trouble(part: Part, message: string, thrown: unknown): void {
    if (this.#troubled.has(part)) return
    this.#troubled.add(part)
    this.#write('warn', `${message}: ${messageOf(asError(thrown))}`)
  }

  recovered(part: Part, message: string): void {
    if (this.#troubled.delete(part)) this.#write('info', message)
  }

  /** Says what happens on and on now and then, and how often it has happened in between. */
  #sometimes(level: Level, kind: string, message: string): void {
    const unsaid = this.#unsaid.get(kind) ?? 0
    if (performance.now() < (this.#quietUntil.get(kind) ?? 0)) {
      this.#unsaid.set(kind, unsaid + 1)
      return
    }
    this.#unsaid.set(kind, 0)
    this.#quietUntil.set(kind, performance.now() + QUIET_MS)
    this.#write(level, unsaid === 0 ? message : `${message} (and ${unsaid} like it since the last line)`)
  }

  /** Listens until it is ended. */
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
        this.trouble('broker', `${destination} is not available, trying again`, error),
      ),
      events.on('relay-retrying', ({ message, error }) =>
        this.#sometimes(
          'warn',
          'retrying',
          `${message.type} ${message.id} was not taken, trying again: ${messageOf(error)}`,
        ),
      ),
      events.on('relay-failed', ({ message, held, error }) => {
        const fate = held ? 'it holds its key' : 'it is in the failed store'
        this.#sometimes(
          'error',
          'failed',
          `${message.type} ${message.id} was refused for good, ${fate}: ${messageOf(error)}`,
        )
      }),
      events.on('worker-error', ({ error }) => this.trouble('store', `${store} makes trouble, going on`, error)),
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
    if (this.#json) err.write(`${safeJson({ at, level, message })}\n`)
    else {
      const label = err.isTTY ? paint(this.#io, STYLES[level], level.padEnd(5)) : level.padEnd(5)
      err.write(`${when(at)}  ${label}  ${safe(message)}\n`)
    }
  }
}
