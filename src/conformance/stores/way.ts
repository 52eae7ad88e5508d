import type { Connection, Store } from '../../contracts/index.ts'
import type { HarnessFeatures, TestDatabase } from '../../testing/index.ts'
import type { Client } from './sql-business.ts'

/** Where an application connects to. */
export interface Target {
  /** On MariaDB and MySQL with the database of the case; on SQLite the path of a file. */
  readonly url: string
  /** The schema on PostgreSQL, the database on MariaDB and MySQL. */
  readonly name: string
  /** The most connections of its pool. */
  readonly max: number
  /** Whether control statements have connections of their own, if that is possible on this way. */
  readonly control: boolean
}

/** An application with a pool of its own. */
export interface Application<Tx, Own> {
  readonly store: Store<Tx, Own>
  /** What the store was given, where it was given a connection. */
  readonly connection?: Connection<Tx, Own>
  /** A transaction that the user opens: commits unless `work` rejects. */
  own<T>(work: (tx: Own) => Promise<T>): Promise<T>
  /** With what would be a transaction of the user's, had it been begun. */
  notBegun<T>(work: (tx: Own) => Promise<T>): Promise<T>
  close(): Promise<unknown>
}

/** A way to reach a database, and how it differs from others. */
export interface Way<Tx, Own> {
  readonly cannot: HarnessFeatures['cannot']
  open(target: Target): Application<Tx, Own> | Promise<Application<Tx, Own>>
  /** Statements in a transaction of this way, in the placeholder style of the database. */
  client(tx: Tx | Own): Client
  /** See `TestDatabase`. */
  leaveOpen(tx: Tx): unknown
  /** See `TestDatabase`; absent: it has none. */
  nested?<T>(tx: Tx, work: (inner: Tx) => Promise<T>): Promise<T>
}

/** What a way cannot do, as far as that shows in it. */
export function cannot<Tx, Own>(way: Way<Tx, Own>, sample: Application<Tx, Own>): HarnessFeatures['cannot'] {
  return {
    ...(sample.connection === undefined && { 'a connection': 'the store makes its own' }),
    ...(way.nested === undefined && { 'nested transactions': 'there are savepoints, and no transactions for them' }),
    ...way.cannot,
  }
}

/** What a way shows of itself to the suite. */
export function shown<Tx, Own>(
  way: Way<Tx, Own>,
  { store, connection, own, notBegun }: Application<Tx, Own>,
  table: string,
  value: (n: number) => string,
): Pick<TestDatabase<Tx, Own>, 'store' | 'own' | 'notBegun' | 'leaveOpen' | 'nested' | 'beneath'> {
  return {
    store,
    own,
    notBegun,
    leaveOpen: (tx) => way.leaveOpen(tx),
    ...(way.nested !== undefined && { nested: way.nested }),
    ...(connection !== undefined && { beneath: { connection, table, value } }),
  }
}

/** The applications of one case, the first of which is under test. */
export class Applications<Tx, Own> {
  readonly #open: (max: number, control: boolean) => Application<Tx, Own> | Promise<Application<Tx, Own>>
  readonly #all: Application<Tx, Own>[] = []
  readonly #givenBack: (() => Promise<unknown>)[] = []

  constructor(open: (max: number, control: boolean) => Application<Tx, Own> | Promise<Application<Tx, Own>>) {
    this.#open = open
  }

  async add(max: number, control = false): Promise<Application<Tx, Own>> {
    const added = await this.#open(max, control)
    this.#all.push(added)
    return added
  }

  /** Another one whose connections can be used up: by transactions that do nothing. */
  async pooled(max: number): ReturnType<TestDatabase<Tx, Own>['pooled']> {
    const { store, own } = await this.add(max, true)
    const useUp = async (): Promise<() => void> => {
      const { promise: over, resolve: giveBack } = Promise.withResolvers<void>()
      const taken = Array.from({ length: max }, () => Promise.withResolvers<void>())
      const ended = taken.map(({ resolve, reject }) =>
        own(async () => {
          resolve()
          await over
        }).catch(reject),
      )
      this.#givenBack.push(async () => {
        giveBack()
        await Promise.allSettled(ended)
      })
      await Promise.all(taken.map(({ promise }) => promise))
      return giveBack
    }
    return { store, useUp }
  }

  async close(): Promise<void> {
    for (const each of this.#givenBack) await each()
    for (const { store } of this.#all) await store.close()
    for (const each of this.#all) await each.close()
  }
}
