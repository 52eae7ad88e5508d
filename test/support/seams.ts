import { AsyncLocalStorage } from 'node:async_hooks'
import { StatementSync } from 'node:sqlite'
import type { Store } from 'hapax'
import type { Connection } from 'hapax/contracts'
import type { RigTx } from './databases.ts'

/** When a process may die around a call. */
type Moment = 'before' | 'in flight' | 'after'

/**
 * Calls that happen when a worker starts, and those that happen as often as time passes, such as heartbeats and looks, which
 * write nothing about a message: neither they nor what they call are points, because two runs would not meet the same ones.
 */
const QUIET =
  /^(close|schema\.\w+|workers\.\w+|subscriptions\.add|(inbox|claims)\.renew|admin\.status|pauses\.list|operations\.(lease|list)|samples\.add)$/

/** Calls that return at once; their queries to the database are points themselves. */
const SYNCHRONOUS = ['transactions.enter', 'schema.sql']

/**
 * Numbers the calls over the seams of a store as they happen, and ends the process at one of them. Two runs of the same
 * program meet the same points, so a clean run shows a sweep where to kill.
 */
export class Seams {
  readonly points: string[] = []
  readonly #killAt: string | number | undefined
  readonly #counts = new Map<string, number>()
  readonly #quiet = new AsyncLocalStorage<boolean>()
  #armed = false

  /** A point by its name, or by its position. */
  constructor(killAt: string | number | undefined) {
    this.#killAt = killAt
  }

  arm(): void {
    this.#armed = true
  }

  /** A call that is a point: the process may end before it, and after it. */
  async around<T>(label: string, call: () => Promise<T>): Promise<T> {
    const name = this.#named(label)
    this.#reach(name, 'before')
    try {
      return await call()
    } finally {
      this.#reach(name, 'after')
    }
  }

  store(store: Store<RigTx>): Store<RigTx> {
    return this.#seamed(store, '')
  }

  /** A store, or a part of one: a call of a method is a point. */
  #seamed<Part extends object>(part: Part, prefix: string): Part {
    return new Proxy(part, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target)
        const label = `${prefix}${String(name)}`
        if (typeof value === 'object' && value !== null && name !== 'features') return this.#seamed(value, `${label}.`)
        if (typeof value !== 'function') return value
        if (SYNCHRONOUS.includes(label)) return value.bind(target)
        return (...args: unknown[]) => {
          if (label === 'transactions.run') args[2] = this.#body('store.body', args[2] as Body)
          const call = (): Promise<unknown> => value.apply(target, args)
          return QUIET.test(label) ? this.#quietly(call) : this.around(`store.${label}`, call)
        }
      },
    })
  }

  connection(connection: Connection<RigTx>): Connection<RigTx> {
    return {
      features: connection.features,
      transaction: (options, work) =>
        this.around('connection.transaction', () =>
          connection.transaction(options, {
            first: work.first,
            body: this.#body('connection.body', (tx, answers) => work.body(tx, answers)),
          }),
        ),
      atOnce: (options, statements) => this.around('connection.atOnce', () => connection.atOnce(options, statements)),
      executor: (tx) => {
        const executor = connection.executor(tx)
        return {
          query: (text, params) => this.around('executor.query', () => executor.query(text, params)),
        }
      },
      enter: (tx) => {
        const entered = connection.enter(tx)
        const query: typeof entered.query = (text, params) =>
          this.around('entered.query', () => entered.query(text, params))
        return { own: entered.own, checks: entered.checks, query, leave: () => entered.leave() }
      },
      mostBytes: (tx) => connection.mostBytes(tx),
      query: (statement, limitMs, acquired) =>
        this.around('connection.query', () => connection.query(statement, limitMs, acquired)),
      close: () => connection.close(),
    }
  }

  /** A driver's connection: the process may end when a statement has been sent and has no reply yet. */
  client<Client extends object>(client: Client, ...methods: readonly (keyof Client & string)[]): Client {
    for (const method of methods) {
      const original = client[method] as (...args: unknown[]) => unknown
      const send = (...args: unknown[]): unknown => {
        const answer = original.apply(client, args)
        const name = this.#named(`statement "${beginning(args[0])}"`)
        setImmediate(() => this.#reach(name, 'in flight'))
        return answer
      }
      Object.defineProperty(client, method, { value: send, configurable: true })
    }
    return client
  }

  /** SQLite replies at once: the process may end between any two statements. */
  sqlite(): void {
    const reach = (statement: StatementSync): void => {
      this.#reach(this.#named(`statement "${beginning(statement.sourceSQL)}"`), 'after')
    }
    for (const method of ['run', 'all'] as const) {
      const original = StatementSync.prototype[method] as (...args: unknown[]) => never
      StatementSync.prototype[method] = function (this: StatementSync, ...args: unknown[]): never {
        const answer = original.apply(this, args)
        reach(this)
        return answer
      }
    }
  }

  #body<Args extends unknown[], T>(label: string, body: (...args: Args) => Promise<T>): (...args: Args) => Promise<T> {
    return (...args) => this.around(label, () => body(...args))
  }

  /** What the call itself does is quiet; concurrent work is not. */
  #quietly<T>(call: () => Promise<T>): Promise<T> {
    return this.#quiet.run(true, call)
  }

  /** Undefined if it is not a point at the moment. */
  #named(label: string): string | undefined {
    if (!this.#armed || this.#quiet.getStore()) return undefined
    const count = (this.#counts.get(label) ?? 0) + 1
    this.#counts.set(label, count)
    return `${label} #${count}`
  }

  #reach(name: string | undefined, moment: Moment): void {
    if (name === undefined) return
    const point = `${moment} ${name}`
    this.points.push(point)
    if (point === this.#killAt || this.points.length === this.#killAt) process.kill(process.pid, 'SIGKILL')
  }
}

type Body = (...args: unknown[]) => Promise<unknown>

function beginning(statement: unknown): string {
  const text = typeof statement === 'string' ? statement : ((statement as { sql?: string }).sql ?? '')
  const words = text.trim().split(/\s+/).slice(0, 3).join(' ')
  return /.commit(?:;\s*end)?;?\s*$/i.test(text) ? `${words} … commit` : words
}
