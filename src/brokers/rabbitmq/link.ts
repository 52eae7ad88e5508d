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
import type { AmqpConnection, AmqpSocket } from './client.ts'
import { brokerError, connectError, isClosed } from './errors.ts'

/** Where the connections of a link come from. */
export interface LinkOptions {
  /** The address for error messages: ` at amqp://…`; empty if only the user knows it. */
  readonly at: string
  /** Loads the client library; rejects where it is not installed. */
  load(): Promise<unknown>
  open(): Promise<AmqpConnection>
  /** Whether hapax closes them. It does not close a connection that the user opened. */
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
 * A shared connection. It is opened for its first user, opened again after a loss, and closed when its last user has left. After a
 * failure, the next attempt is delayed. Until then a caller that does not wait gets the last failure at once.
 */
export class Link {
  readonly #options: LinkOptions
  /** How many messages the server has answered. */
  confirmed = 0
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

  /** Loads the client library; needs no server. */
  async prepare(): Promise<void> {
    await this.#options.load()
  }

  /** Adds a user. */
  acquire(): void {
    this.#users += 1
  }

  /** Removes a user. The last one closes the connection; abruptly if the server no longer responds (`answers` is false). */
  async release(answers = true): Promise<void> {
    this.#users -= 1
    const connection = this.#connection
    if (this.#users > 0 || connection === undefined) return
    this.#connection = undefined
    if (!this.#options.owned) this.#watched?.end()
    else if (answers) await closeConnection(connection)
    else socketOf(connection)?.destroy(new Error('the server does not answer'))
  }

  /** Why the server is not accepting messages; undefined if it is. */
  get blocked(): HapaxError | undefined {
    return this.#blocked
  }

  /** Calls the listener when the server stops accepting messages. Returns a function that removes it. */
  onBlocked(listener: (error: HapaxError) => void): () => void {
    this.#blockedListeners.add(listener)
    return () => this.#blockedListeners.delete(listener)
  }

  /** How long to wait for the server's answers. */
  get timeoutMs(): number {
    return this.#options.timeoutMs
  }

  /** Whether messages still wait to be written to a connection, or the server does not read them. */
  isBusy(connection: AmqpConnection): boolean {
    return this.#blocked !== undefined || (socketOf(connection)?.writableLength ?? 0) > 0
  }

  /** Does without a connection that does not answer. Returns the error. */
  giveUp(connection: AmqpConnection, error: HapaxError): HapaxError {
    this.#drop(connection)
    if (this.#options.owned) socketOf(connection)?.destroy(error)
    return error
  }

  /** The delay before the next attempt to connect. */
  get pauseMs(): number {
    return Math.max(0, (this.#failed?.until ?? 0) - systemClock.monotonic())
  }

  /** The error for work that ended with the link. */
  lost(what: string): HapaxError {
    if (this.#loss !== undefined) return brokerError(`${what}: the link to RabbitMQ was lost`, this.#loss)
    return new HapaxError('broker-unavailable', `${what}: the link to RabbitMQ was lost`)
  }

  /**
   * Runs work on the connection, with a timeout. Rejects with a HapaxError. After a timeout the connection is given up, because
   * everything else on it waits as well. `patient` callers do their own back-off. `late` cleans up a result that comes after the
   * timeout, on a connection that stays open.
   */
  async use<T>(what: string, work: Work<T>, { patient = false, late }: UseOptions<T> = {}): Promise<T> {
    if (!patient && this.#failed !== undefined && this.pauseMs > 0) throw this.#failed.error
    const connection = await this.#connect()
    const { timeoutMs } = this.#options
    try {
      const working = work(connection)
      return await within(systemClock, timeoutMs, working, () => {
        if (late !== undefined) void working.then(late).catch(() => {})
        throw this.giveUp(connection, new HapaxError('broker-timeout', `${what}: no answer within ${timeoutMs} ms`))
      })
    } catch (error) {
      // A connection that is lost while it is being opened emits no event.
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
      // If it opens after all, it is no longer wanted.
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
    // `amqplib` only half-closes the socket. If the peer is gone, it would keep the process alive for ever.
    if (this.#options.owned) socketOf(connection)?.destroy()
  }

  #drop(connection: AmqpConnection): void {
    if (this.#connection === connection) this.#connection = undefined
  }
}

/** The back-off between attempts to reach the server, or to open a queue that is missing. */
export const BACK_OFF: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  minDelayMs: 50,
  maxDelayMs: 10_000,
  factor: 2,
}

/** How long closing may take. */
const CLOSE_MS = 3_000

/** Closes a channel or a connection. False: the server did not respond in time. */
export function closed(open: Pick<AmqpConnection, 'close' | 'on'>): Promise<boolean> {
  const closing = new Promise<boolean>((resolve) => {
    const done = (): void => resolve(true)
    // If the link breaks meanwhile, the promise of `amqplib` never settles.
    open.on('close', done)
    // It rejects if it is already closed.
    open.close().then(done, done)
  })
  return within(systemClock, CLOSE_MS, closing, () => false)
}

async function closeConnection(connection: AmqpConnection): Promise<void> {
  if (!(await closed(connection))) socketOf(connection)?.destroy(new Error('the server does not answer'))
}

/** The socket of a connection. Undocumented in `amqplib`: without it, a dead link lasts longer. */
function socketOf(connection: AmqpConnection): AmqpSocket | undefined {
  return connection.connection?.stream
}
