import type { Connection } from 'hapax/contracts'
import type { Executor, Statement } from '../../src/contracts/connection.ts'
import type { RigTx } from './databases.ts'
import type { Seams } from './seams.ts'

/** A statement, and what the transaction was set to that it ran in. */
export interface RecordedStatement extends Statement {
  readonly settings?: readonly Statement[]
}

/** Every statement that a store sends of its own, by its text, with the values that it was sent with last. */
export class Recorded {
  readonly statements = new Map<string, RecordedStatement>()

  /** What `openStore` takes. */
  get seams(): Seams {
    const seams = {
      store: (store: unknown) => store,
      connection: (connection: Connection<RigTx>) => this.#watched(connection),
      client: () => {},
      sqlite: () => {},
    }
    return seams as unknown as Seams
  }

  #watched(connection: Connection<RigTx>): Connection<RigTx> {
    const record = (...statements: readonly RecordedStatement[]): void => {
      for (const statement of statements) this.statements.set(statement.text, statement)
    }
    const executing = <E extends Executor>(executor: E): E => ({
      ...executor,
      query: (text: string, params?: Statement['params']) => {
        record({ text, params: params ?? [] })
        return executor.query(text, params ?? [])
      },
    })
    const own: Partial<Connection<RigTx>> = {
      query: (statement, ...rest) => {
        record(statement)
        return connection.query(statement, ...rest)
      },
      executor: (tx) => executing(connection.executor(tx)),
      atOnce: (options, statements) => {
        record(...statements)
        return connection.atOnce(options, statements)
      },
      transaction: (options, work) => {
        const settings = work.first.filter(({ text }) => text.includes('set_config'))
        record(...work.first.map((statement) => ({ ...statement, settings })))
        return connection.transaction(options, {
          first: work.first,
          body: async (tx, answers) => {
            const end = await work.body(tx, answers)
            record(...(end.last ?? []))
            return end
          },
        })
      },
    }
    return new Proxy(connection, {
      get: (target, name) => {
        const value: unknown = Reflect.get(own, name) ?? Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }
}
