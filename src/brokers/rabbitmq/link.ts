import {
  asError,
  HapaxError,
  heard,
  messageOf,
  type RetryPolicy,
  retryDelay,
  systemClock,
  systemRandom,
  within,
} from '../../base/index.ts'
import type { AmqpConnection } from './client.ts'
import { brokerError, connectError, isClosed } from './errors.ts'

/** Where the connections of a link come from. */
export interface LinkOptions {
  /** Where the server is, for people: ` at amqp://…`; nothing if only the user knows. */
  readonly at: string
  /** Loads the client library; rejects where it is not installed. */
  load(): Promise<unknown>
  open(): Promise<AmqpConnection>
  /** Whether they are closed here: those that the user made are not. */
  readonly owned: boolean
  /** How long to wait for the server's answers. */
  readonly timeoutMs: number
}

type Work<T> = (connection: AmqpConnection) => Promise<T>

interface UseOptions<T> {
  readonly patient?: boolean
  readonly late?: (result: T) => Promise<unknown>
}

/**
 * A connection that several share: opened when the first needs it, opened anew after a loss, closed when nobody is left. After
 * a failure the next attempt has to wait a little; whoever does not wait is told the failure at once.
 */
export class Link {
  readonly #options: LinkOptions
  readonly #blockedListeners = new Set<(error: HapaxError) => void>()
  #users = 0
  #connection: AmqpConnection | undefined
  #connecting: Promise<AmqpConnection> | undefined
  #blocked: HapaxError | undefined
  #loss: unknown
  #watched: { readonly connection: AmqpConnection; end(): void } | undefined
  #failed: { readonly error: HapaxError; readonly times: number; readonly until: number } | undefined

  constructor(options: LinkOptions) {
    this.#options = options
  }

  /** Gets what it needs before the server does. */
  async prepare(): Promise<void> {
    await this.#options.load()
  }

  /** One more needs it. */
  acquire(): void {
    this.#users += 1
  }

  /** One fewer needs it; the last one closes it, without a word if the server does not answer any more. */
  async release(answers = true): Promise<void> {
    this.#users -= 1
    const connection = this.#connection
    if (this.#users > 0 || connection === undefined) return
    this.#connection = undefined
    if (!this.#options.owned) this.#watched?.end()
    else if (answers) await closeConnection(connection)
    else socketOf(connection)?.destroy(new Error('the server does not answer'))
  }

  /** Why the server takes no messages at present; undefined: it takes them. */
  get blocked(): HapaxError | undefined {
    return this.#blocked
  }

  /** Tells when the server takes no messages any more, until the function that it answers is called. */
  onBlocked(listener: (error: HapaxError) => void): () => void {
    this.#blockedListeners.add(listener)
    return () => this.#blockedListeners.delete(listener)
  }

  /** How long the next attempt to connect has to wait. */
  get pauseMs(): number {
    return Math.max(0, (this.#failed?.until ?? 0) - systemClock.monotonic())
  }

  /** The error for something that ended with the link. */
  lost(what: string): HapaxError {
    if (this.#loss !== undefined) return brokerError(`${what}: the link to RabbitMQ was lost`, this.#loss)
    return new HapaxError('broker-unavailable', `${what}: the link to RabbitMQ was lost`)
  }

  /**
   * Does some work on the connection, in time. Rejects with an error of hapax. A server that does not answer in time has lost
   * the connection: whatever else it carries is waiting as well. `patient` ones wait between attempts themselves; `late` ends what
   * comes of the work when nobody waits for it any more, on a connection that goes on.
   */
  async use<T>(what: string, work: Work<T>, { patient = false, late }: UseOptions<T> = {}): Promise<T> {
    if (!patient && this.#failed !== undefined && this.pauseMs > 0) throw this.#failed.error
    const connection = await this.#connect()
    const { timeoutMs } = this.#options
    try {
      const working = work(connection)
      return await within(systemClock, timeoutMs, working, () => {
        if (late !== undefined) void working.then(late).catch(() => {})
        throw this.#giveUp(connection, new HapaxError('broker-timeout', `${what}: no answer within ${timeoutMs} ms`))
      })
    } catch (error) {
      // It can be lost unnoticed in the moment in which it is opened.
      if (isClosed(error) && messageOf(asError(error)).startsWith('Connection')) this.#drop(connection)
      throw brokerError(what, error)
    }
  }

  #connect(): Promise<AmqpConnection> {
    if (this.#connection !== undefined) return Promise.resolve(this.#connection)
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #open(): Promise<AmqpConnection> {
    let connection: AmqpConnection
    try {
      connection = await this.#opened()
    } catch (error) {
      throw this.#failure(error)
    }
    this.#failed = undefined
    this.#loss = undefined
    this.#watch(connection)
    if (this.#users > 0) {
      this.#connection = connection
      return connection
    }
    if (this.#options.owned) await closeConnection(connection)
    throw new HapaxError('broker-unavailable', 'the link to RabbitMQ was closed')
  }

  #opened(): Promise<AmqpConnection> {
    const { open, owned, timeoutMs } = this.#options
    const opening = open().then((connection) => heard(connection))
    return within(systemClock, timeoutMs, opening, () => {
      // Should it open after all, nobody wants it any more.
      if (owned) void opening.then(closeConnection).catch(() => {})
      throw new HapaxError('broker-timeout', `RabbitMQ did not answer within ${timeoutMs} ms`)
    })
  }

  #failure(cause: unknown): HapaxError {
    const error = connectError(`could not connect to RabbitMQ${this.#options.at}`, cause)
    const times = (this.#failed?.times ?? 0) + 1
    const until = systemClock.monotonic() + retryDelay(BACK_OFF, times, systemRandom)
    this.#failed = { error, times, until }
    return error
  }

  #watch(connection: AmqpConnection): void {
    if (this.#watched?.connection === connection) return
    const listeners = {
      error: (error: unknown) => {
        this.#loss = error
      },
      close: (error: unknown) => this.#closed(connection, error),
      blocked: (reason: unknown) => {
        this.#blocked = new HapaxError('broker-blocked', `RabbitMQ takes no messages at present: ${reason}`)
        for (const listener of this.#blockedListeners) listener(this.#blocked)
      },
      unblocked: () => {
        this.#blocked = undefined
      },
    }
    for (const [event, listener] of Object.entries(listeners)) connection.on(event, listener)
    const end = (): void => {
      for (const [event, listener] of Object.entries(listeners)) connection.removeListener(event, listener)
      this.#watched = undefined
      this.#blocked = undefined
    }
    this.#watched = { connection, end }
  }

  #closed(connection: AmqpConnection, error: unknown): void {
    this.#loss ??= error
    this.#drop(connection)
    if (this.#watched?.connection === connection) this.#watched.end()
    // `amqplib` only ends its side: a peer that is gone would keep the socket, and so the process, for ever.
    if (this.#options.owned) socketOf(connection)?.destroy()
  }

  #drop(connection: AmqpConnection): void {
    if (this.#connection === connection) this.#connection = undefined
  }

  #giveUp(connection: AmqpConnection, error: HapaxError): HapaxError {
    this.#drop(connection)
    if (this.#options.owned) socketOf(connection)?.destroy(error)
    return error
  }
}

/** How long to wait between attempts to reach the server, also where only a queue is missing. */
export const BACK_OFF: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  minDelayMs: 50,
  maxDelayMs: 10_000,
  factor: 2,
}

/** How long a server may take to say good-bye. */
const CLOSE_MS = 3_000

/** Closes a channel or a connection; true: it is closed, false: the server has not answered in time. */
export function closed(open: Pick<AmqpConnection, 'close' | 'on'>): Promise<boolean> {
  const closing = new Promise<boolean>((resolve) => {
    const done = (): void => resolve(true)
    // A link that breaks meanwhile leaves the promise of `amqplib` without an answer.
    open.on('close', done)
    // It refuses where it is closed already.
    open.close().then(done, done)
  })
  return within(systemClock, CLOSE_MS, closing, () => false)
}

async function closeConnection(connection: AmqpConnection): Promise<void> {
  if (!(await closed(connection))) socketOf(connection)?.destroy(new Error('the server does not answer'))
}

/** The socket of a connection. It is not part of what `amqplib` documents: where it is missing, a dead link lasts longer. */
function socketOf(connection: AmqpConnection): { destroy(error?: Error): unknown } | undefined {
  return connection.connection?.stream
}
