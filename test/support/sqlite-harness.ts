import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { StoreHarness } from 'hapax/testing'
import { businessTables, setBack, sqlBusiness } from '../../src/conformance/stores/sql-business.ts'
import { type Application, Applications, cannot, shown, type Way } from '../../src/conformance/stores/way.ts'

/** An application on a file that is gone again. */
async function sampled<Tx, Own>(way: Way<Tx, Own>): Promise<Application<Tx, Own>> {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-sample-'))
  const sample = await way.open({ url: join(directory, 'database'), name: '', max: 1, control: false })
  await sample.close()
  rmSync(directory, { recursive: true, force: true })
  return sample
}

const table = (name: string): string => name

/** The conformance harness of SQLite: a file of its own for each case. */
export async function sqliteHarness<Tx, Own>(way: Way<Tx, Own>): Promise<StoreHarness<Tx, Own>> {
  const sample = await sampled(way)
  return {
    features: {
      ...sample.store.features,
      errorsAbort: false,
      cannot: {
        'a pool': 'one writer at a time: there is no pool',
        'row locks': 'one writer at a time',
        sessions: 'there is no server',
        'statements that commit': 'data definition is a part of the transaction',
        ...cannot(way, sample),
      },
    },

    async open({ migrated }) {
      const directory = mkdtempSync(join(tmpdir(), 'hapax-suite-'))
      const path = join(directory, 'database')
      const checker = new DatabaseSync(path, { timeout: 10_000 })
      checker.exec('pragma journal_mode = wal')
      checker.exec(businessTables(table, 'text', 'blob').join(';'))
      const applications = new Applications((max, control) => way.open({ url: path, name: '', max, control }))
      const application = await applications.add(1)
      if (migrated) await application.store.schema.migrate()
      const column = async (text: string): Promise<string[]> =>
        checker
          .prepare(text)
          .all()
          .map(({ value }) => String(value))
      return {
        ...sqlBusiness<Tx, Own>(way.client, table, '?'),
        ...shown(way, application, 'shapes', () => '?'),
        another: async () => (await applications.add(1)).store,
        pooled: (max) => applications.pooled(max),
        effects: () => column('select label as value from effects'),
        outbox: () => column('select id as value from hapax_outbox order by seq'),
        setSeq: async (seq) => {
          for (const name of ['hapax_inbox', 'hapax_failed']) {
            checker.exec(`delete from sqlite_sequence where name = '${name}'`)
            checker.exec(`insert into sqlite_sequence (name, seq) values ('${name}', ${seq} - 1)`)
          }
        },
        newer: async (compatibleFrom) =>
          checker.exec(
            `insert into hapax_migrations (version, name, checksum, compatible_from) values (1000, 'later', 'other', ${compatibleFrom})`,
          ),
        sameTime: async () => {
          checker.exec('update hapax_failed set failed_at = 1')
          checker.exec('update hapax_effects set first_at = 1, last_at = 1')
          checker.exec('update hapax_audit set at = 1')
        },
        setBack: async (ms) =>
          checker.exec(
            setBack(
              (name) => `hapax_${name}`,
              (each) => `${each} + ${ms}`,
            ).join(';'),
          ),
        drift: async () => checker.exec(`update hapax_migrations set checksum = 'other' where version = 1`),
        close: async () => {
          await applications.close()
          checker.close()
          rmSync(directory, { recursive: true, force: true })
        },
      }
    },
  }
}
