import { isHapaxError } from '../base/index.ts'
import type { EndSignal, Io } from './io/io.ts'
import type { ProcessLog } from './io/process-log.ts'

/** What a process runs until it is asked to end. */
export interface Service {
  start(): Promise<void>
  stop(options: { readonly deadlineMs: number }): Promise<void>
}

/** How a service is run. */
export interface Serving {
  readonly ending: Ending
  readonly log: ProcessLog
  /** The name of the store, for the log. */
  readonly store: string
  readonly deadlineMs: number
  /** What it means that a second signal did not let it finish. */
  readonly lost: string
}

/** How a service ended. */
export interface Ended {
  readonly exitCode: number
  /** False if a second signal ended it before it had finished. */
  readonly stopped: boolean
}

/** 128 plus the number of the signal, as shells report it. */
const EXIT_CODES: Readonly<Record<EndSignal, number>> = { SIGINT: 130, SIGTERM: 143 }
/** The longest pause between two attempts to start. */
const MAX_PAUSE_MS = 10_000

/**
 * Starts a service. Keeps trying while the database or a broker is unavailable, and gives up at a signal. Resolves with how it ended
 * if it was asked to end before it had started.
 */
export async function started(service: Service, serving: Serving): Promise<Ended | undefined> {
  const { ending, log, store } = serving
  for (let pauseMs = 250; ; pauseMs = Math.min(MAX_PAUSE_MS, 2 * pauseMs)) {
    try {
      const starting = service.start()
      starting.catch(() => {})
      if ((await Promise.race([starting, ending.first])) === undefined) return undefined
    } catch (error) {
      if (isHapaxError(error, 'store-unavailable')) {
        log.trouble('store', `${store} is not available, retrying`, error)
      } else if (isHapaxError(error, 'broker-unavailable')) {
        log.trouble('broker', 'a broker is not available, retrying', error)
      } else {
        throw error
      }
    }
    await Promise.race([ending.first, new Promise((resolve) => setTimeout(resolve, pauseMs))])
    if (ending.once) return ended(service, serving)
  }
}

/** Waits for a signal and stops the service. A second signal ends the wait. */
export async function ended(service: Service, { ending, log, deadlineMs, lost }: Serving): Promise<Ended> {
  const signal = await ending.first
  log.info(`${signal}: stopping`)
  const stopped = service.stop({ deadlineMs }).then(() => 'stopped' as const)
  const end = await Promise.race([stopped, ending.second])
  if (end === 'stopped') return { exitCode: 0, stopped: true }
  log.warn(`${end} again: ended at once; ${lost}`)
  return { exitCode: EXIT_CODES[end], stopped: false }
}

/** The signals that ask the process to end: the first one politely, the second one at once. */
export class Ending {
  readonly first: Promise<EndSignal>
  readonly second: Promise<EndSignal>
  readonly forget: () => void
  #signals = 0

  constructor(io: Io) {
    const first = Promise.withResolvers<EndSignal>()
    const second = Promise.withResolvers<EndSignal>()
    this.first = first.promise
    this.second = second.promise
    this.forget = io.onSignal((signal) => {
      this.#signals += 1
      if (this.#signals === 1) first.resolve(signal)
      else second.resolve(signal)
    })
  }

  get once(): boolean {
    return this.#signals > 0
  }

  get twice(): boolean {
    return this.#signals > 1
  }
}
