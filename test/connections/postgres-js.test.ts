import { createHapax, defineMessage } from 'hapax'
import { postgres } from 'hapax/postgres'
import { fromPostgresJs } from 'hapax/postgres-js'
import postgresJs, { type TransactionSql } from 'postgres'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runPair } from '../support/pairs.ts'
import { requireServer, testStores } from '../support/servers.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

await runPair<TransactionSql>({
  orm: 'postgres.js',
  driver: 'postgres.js',
  database: 'postgres',
  cannot: { 'own sessions that end': 'the driver writes to a socket that is gone, and the error ends the process' },
  open: ({ url, max }) => {
    const sql = postgresJs(url, {
      max,
      onnotice: () => {},
      connection: { application_name: new URL(url).searchParams.get('application_name') ?? 'hapax' },
    })
    return {
      from: fromPostgresJs(sql),
      own: (work) => sql.begin(work) as ReturnType<typeof work>,
      notBegun: (work) => work(sql as unknown as TransactionSql),
      close: () => sql.end({ timeout: 5 }),
    }
  },
  client: (tx) => ({ query: async (text, values = []) => tx.unsafe(text, values as string[]) }),
  leaveOpen: (tx) => tx`select pg_sleep(300)`.catch(() => {}),
  nested: (tx, work) => tx.savepoint(work) as ReturnType<typeof work>,
})

const Ping = defineMessage<{ n: number }>('ping')

describe.skipIf(!testStores().includes('postgres'))('postgres.js alone', () => {
  const open = (options: postgresJs.Options<Record<string, never>> = {}) => {
    const sql = postgresJs(requireServer('postgres'), { max: 1, onnotice: () => {}, ...options })
    onTestFinished(() => sql.end({ timeout: 5 }))
    return { sql, hapax: createHapax({ store: postgres(fromPostgresJs(sql)), source: '/test' }) }
  }
  const migrated = async (options: postgresJs.Options<Record<string, never>>) => {
    const { sql } = open(options)
    const { sql: other } = open()
    const schema = `hapax_own_${process.pid}`
    onTestFinished(() => other`drop schema if exists ${other(schema)} cascade`.then(() => {}))
    const hapax = createHapax({ store: postgres(fromPostgresJs(sql), { schema }), source: '/test' })
    await hapax.migrate()
    return { sql, hapax }
  }

  it('handlers have tagged templates, helpers and savepoints', async () => {
    const { hapax } = open()
    const rows = await hapax.transaction(async (tx) => {
      await tx`create temp table lines (id int, name text) on commit drop`
      await tx`insert into lines ${tx([{ id: 1, name: 'a' }])}`
      await tx.savepoint((nested) => nested`insert into lines ${nested({ id: 2, name: 'b' }, 'id', 'name')}`)
      return [...(await tx`select name from lines where id in ${tx([1, 2])} order by id`)]
    })
    expect(rows).toEqual([{ name: 'a' }, { name: 'b' }])
  })

  it('E8: a backend that is terminated costs its transaction, and the pool of one goes on', async () => {
    const uncaught = uncaughtErrors()
    const { hapax } = open()
    for (let round = 0; round < 3; round++) {
      const lost = hapax.transaction(async (tx) => {
        await tx`select pg_terminate_backend(pg_backend_pid())`
      })
      await expect(lost).rejects.toMatchObject({ code: 'transaction-lost' })
    }
    await hapax.transaction(async (tx) => expect(await tx`select 1 as n`).toMatchObject([{ n: 1 }]))
    expect(uncaught).toEqual([])
  })

  it('A5: a later publish in a sql.begin whose link has broken is refused, and not sent', async () => {
    const uncaught = uncaughtErrors()
    const closed = Promise.withResolvers<void>()
    const { sql, hapax } = await migrated({ onclose: () => closed.resolve() })
    const refused = Promise.withResolvers<unknown>()
    const own = sql.begin(async (tx) => {
      await hapax.publish(tx, Ping, { n: 1 })
      await tx`select pg_terminate_backend(pg_backend_pid())`.catch(() => {})
      await closed.promise
      refused.resolve(await hapax.publish(tx, Ping, { n: 2 }).catch((error: unknown) => error))
      // With its callback settled, the driver would write to the socket.
      await new Promise(() => {})
    })
    await expect(own).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    await expect(refused.promise).resolves.toMatchObject({ code: 'not-in-transaction' })
    expect(uncaught).toEqual([])
  })

  it('A4: a handler that goes on after its connection was lost does not commit', async () => {
    const { hapax } = open()
    const lost = hapax.transaction(async (tx) => {
      await tx`select pg_terminate_backend(pg_backend_pid())`.catch(() => {})
      await tx`select 1`.catch(() => {})
    })
    await expect(lost).rejects.toMatchObject({ name: 'HapaxError' })
  })

  it('A4: a cursor and a late query belong to the transaction', async () => {
    const { hapax } = open()
    let late: PromiseLike<unknown> | undefined
    await hapax.transaction(async (tx) => {
      late = tx`select 1`
      for await (const [row] of tx`select generate_series(1, 3) as n`.cursor()) expect(row?.['n']).toBeTypeOf('number')
    })
    await expect(late).rejects.toMatchObject({ code: 'transaction-closed' })
  })

  it('works without prepared statements', async () => {
    const { hapax } = open({ prepare: false, fetch_types: false })
    await hapax.transaction(async (tx) => expect(await tx`select ${1}::int as n`).toMatchObject([{ n: 1 }]))
  })

  it('a transform that renames columns is refused at the start', async () => {
    const schema = `hapax_camel_${process.pid}`
    const { sql: plain } = open()
    onTestFinished(() => plain`drop schema if exists ${plain(schema)} cascade`.then(() => {}))
    await postgres(fromPostgresJs(plain), { schema }).schema.migrate()
    const { sql } = open({ transform: postgresJs.camel })
    const ready = postgres(fromPostgresJs(sql), { schema }).schema.ready()
    await expect(ready).rejects.toMatchObject({ code: 'unrecognised-result' })
  })
})
