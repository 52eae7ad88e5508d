import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Store } from 'hapax'
import { type SqliteTx, sqlite } from 'hapax/sqlite'
import type { StoreHarness } from 'hapax/testing'
import { businessTables, sqlBusiness } from './sql-business.ts'

const table = (name: string): string => name

/** The store on a file of its own for each case. */
export const sqliteHarness: StoreHarness<SqliteTx> = {
  features: {
    ...sqlite({ path: ':memory:' }).features,
    errorsAbort: false,
    cannot: {
      'a pool': 'one writer at a time: there is no pool',
      'row locks': 'one writer at a time',
      'something left open': 'a statement is over when it returns',
    },
  },

  async open({ migrated }) {
    const directory = mkdtempSync(join(tmpdir(), 'hapax-suite-'))
    const path = join(directory, 'database')
    const checker = new DatabaseSync(path, { timeout: 10_000 })
    checker.exec('pragma journal_mode = wal')
    checker.exec(businessTables(table, 'text').join(';'))
    const stores: Store<SqliteTx>[] = []
    const another = async () => {
      const store = sqlite({ path })
      stores.push(store)
      return store
    }
    const store = await another()
    if (migrated) await store.schema.migrate()
    const column = async (text: string): Promise<string[]> =>
      checker
        .prepare(text)
        .all()
        .map(({ value }) => String(value))
    const none = () => Promise.reject(new Error('ruled out by the features'))
    return {
      ...sqlBusiness<SqliteTx, SqliteTx>((tx) => tx, table, '?'),
      store,
      another,
      pooled: none,
      leaveOpen: () => {},
      effects: () => column('select label as value from effects'),
      own: none,
      notBegun: none,
      outbox: () => column('select id as value from hapax_outbox order by seq'),
      setSeq: async (seq) => {
        for (const name of ['hapax_inbox', 'hapax_failed']) {
          checker.exec(`delete from sqlite_sequence where name = '${name}'`)
          checker.exec(`insert into sqlite_sequence (name, seq) values ('${name}', ${seq} - 1)`)
        }
      },
      drift: async () => checker.exec(`update hapax_migrations set checksum = 'other' where version = 1`),
      close: async () => {
        await Promise.all(stores.map((each) => each.close()))
        checker.close()
        rmSync(directory, { recursive: true, force: true })
      },
    }
  },
}
