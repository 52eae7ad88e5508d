import { type Detached, detached } from './detached.ts'
import { asError, faultFields } from './errors.ts'
import type { Events, MessageRef } from './events.ts'
import type { Logger } from './logger.ts'
import { able } from './options.ts'
import type { Redact } from './redact.ts'

/** The part of a trace that travels with a message: W3C Trace Context. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/**
 * What hapax does, in the order in which a message meets it. `process` is one attempt at one message or at a group that shares a
 * transaction; `handle` is the call of one handler in it. `http` is a request of `hapax.http`, with what it waits for. `upkeep` is hapax's own work: looks, heartbeats, cleaning, timers. It only
 * sets the context for what begins in it, and has no end. Others may follow: an instrument just calls the work of one it does not know.
 */
export type Operation = 'publish' | 'relay' | 'receive' | 'process' | 'handle' | 'settle' | 'effect' | 'http' | 'upkeep'

/** A message as an instrument sees it; never the payload. */
export interface MessageFacts extends MessageRef {
  readonly key?: string
  /** The size of the payload. */
  readonly bytes: number
  /** 1 for the first attempt. */
  readonly attempt?: number
  /** The context that it was published with. A third-party sender may have written anything into it. */
  readonly trace?: TraceContext
}

/** Messages, which are described when they are asked for: an operation that is not recorded needs their number at most. */
export interface Messages extends Iterable<MessageFacts> {
  readonly size: number
}

/** What is known of an operation when it begins. */
export interface Facts {
  /** The broker, such as `rabbitmq`; `hapax` for what stays in the database. */
  readonly system: string
  /** The exchange, queue or topic. */
  readonly destination?: string
  readonly consumer?: string
  /** Whether the messages of an attempt come from the inbox. Otherwise they were handed over, by a subscription or the application. */
  readonly stored?: boolean
  readonly relay?: string
  /** The name of an outside call. */
  readonly effect?: string
  /** The scope of a request. */
  readonly scope?: string
  /** Undefined: they become known later, because they have to be claimed first. If they never do, there were none. */
  readonly messages?: Messages
}

/** What becomes known of an operation while it runs. */
export interface Findings {
  readonly messages?: Messages
  /** What became of each message, in their order: the status of an outcome, of a confirmation, the state of an effect, or that of a request. */
  readonly outcomes?: readonly string[]
  /** Why it failed. An operation may fail although its work resolves, because hapax has recorded the failure. */
  readonly error?: unknown
}

/** An operation that has begun. Its methods may be called at any time, also after its end. */
export interface Running {
  add(findings: Findings): void
  /** Runs work in the context of the operation, wherever it is called from, such as the callback of a socket. */
  enter<T>(work: () => T): T
  /** It is over, although its work goes on with something else. */
  end(findings?: Findings): void
}

/**
 * Watches what hapax does, for traces. Every method is called often, and some of them for every message. Whatever they throw is
 * logged once and changes nothing.
 */
export interface Instrument {
  /** The operations that it wants to be called for. @default all */
  readonly operations?: readonly Operation[]
  /** The context of the current work, which a published message carries. Called synchronously by `publish`. */
  capture(): TraceContext | undefined
  /** Calls `work` once, synchronously, and returns what it returns. A promise tells the end of the operation. */
  around<T>(operation: Operation, facts: Facts, work: (running: Running) => T): T
  /** Called once, with the events of the hapax, and with its rules for texts of errors, which may contain secrets. */
  listen?(events: Events, redact: Redact): void
}

/** Checks the option `instrument`. Undefined: there is none, and nothing is spent on it. */
export function instrumentOption(
  given: Instrument | undefined,
  events: Events,
  logger: Logger,
  redact: Redact,
): SafeInstrument | undefined {
  if (given === undefined) return undefined
  able('instrument', 'an instrument, for example opentelemetry()', given, ['capture', 'around'])
  return new SafeInstrument(given, events, logger, redact)
}

/** How the background work of a hapax runs. */
export function detachedOf(instrument: SafeInstrument | undefined): Detached {
  if (instrument === undefined) return detached
  return (work, ...args) => detached(() => instrument.around('upkeep', UPKEEP, () => work(...args)))
}

/** An instrument that cannot disturb: the work is called exactly once, and its result is what it returned itself. */
export class SafeInstrument {
  readonly #instrument: Instrument
  readonly #logger: Logger
  readonly #wanted: ReadonlySet<Operation> | undefined
  #told = false

  constructor(instrument: Instrument, events: Events, logger: Logger, redact: Redact) {
    this.#instrument = instrument
    this.#logger = logger
    this.#wanted = this.#try(() => instrument.operations && new Set(instrument.operations))
    this.#try(() => instrument.listen?.(events, redact))
  }

  /** Whether it wants to be called for an operation: to be asked where that happens for every message. */
  wants(operation: Operation): boolean {
    return this.#wanted?.has(operation) ?? true
  }

  capture(): TraceContext | undefined {
    const captured = this.#try(() => this.#instrument.capture())
    // Read here, because it may have getters that throw.
    return captured && this.#try(() => contextOf(captured))
  }

  around<T>(operation: Operation, facts: Facts, work: (running: Running) => T): T {
    if (!this.wants(operation)) return work(ALONE)
    const once = new Once(work, (call, own) => this.#try(call, own))
    this.#try(
      () => this.#instrument.around(operation, facts, once.call),
      (error) => once.own(error),
    )
    if (!once.called) this.#failed(new Error(`the instrument did not call the work of ${operation}`))
    return once.result()
  }

  /**
   * What the instrument throws is logged, unless it is the error of the work. It may return a promise of its own, where none is expected
   * as well, which rejects as the work does, or for a reason of its own.
   */
  #try<T>(call: () => T, own: (error: unknown) => boolean = () => false): T | undefined {
    const failed = (error: unknown): void => {
      if (!own(error)) this.#failed(error)
    }
    try {
      const returned = call()
      if (returned instanceof Promise) returned.catch(failed)
      return returned
    } catch (error) {
      failed(error)
      return undefined
    }
  }

  #failed(error: unknown): void {
    if (this.#told) return
    this.#told = true
    this.#logger.error(faultFields(asError(error)), 'the instrument failed; this is logged once')
  }
}

function contextOf({ traceparent, tracestate }: TraceContext): TraceContext {
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate }
}

/** Calls an instrument; `own` tells the errors that are not its. */
type Contain = <R>(call: () => R, own?: (error: unknown) => boolean) => R | undefined

/** The work of one operation, and what came of it. */
class Once<T> {
  readonly #work: (running: Running) => T
  readonly #contain: Contain
  #ended: { readonly value: T } | { readonly error: unknown } | undefined
  #rejection: { readonly error: unknown } | undefined
  #running = false

  constructor(work: (running: Running) => T, contain: Contain) {
    this.#work = work
    this.#contain = contain
  }

  get called(): boolean {
    return this.#running
  }

  readonly call = (running: Running): T => {
    if (this.#running) return this.result()
    this.#running = true
    try {
      const value = this.#work(this.#safe(running))
      this.#ended = { value }
      if (value instanceof Promise) {
        value.catch((error: unknown) => {
          this.#rejection = { error }
        })
      }
      return value
    } catch (error) {
      this.#ended = { error }
      throw error
    }
  }

  /** Whether an error is the one that the work ended with. */
  own(error: unknown): boolean {
    const ended = this.#rejection ?? this.#ended
    return ended !== undefined && 'error' in ended && ended.error === error
  }

  /** What the work returned, or throws what it threw. */
  result(): T {
    if (!this.#running) return this.call(ALONE)
    const ended = this.#ended
    if (ended === undefined) throw new Error('the instrument called the work from inside itself')
    if ('error' in ended) throw ended.error
    return ended.value
  }

  #safe(running: Running): Running {
    const contain = this.#contain
    return {
      add: (findings) => contain(() => running.add(findings)),
      end: (findings) => contain(() => running.end(findings)),
      enter: (work) => {
        const once = new Once(work, contain)
        contain(
          () => running.enter(() => once.call(ALONE)),
          (error) => once.own(error),
        )
        return once.result()
      },
    }
  }
}

/** An operation that nobody watches. */
const ALONE: Running = { add: () => {}, enter: (work) => work(), end: () => {} }

const UPKEEP: Facts = { system: 'hapax' }
