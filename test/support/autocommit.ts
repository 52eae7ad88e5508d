import type { Connection, ErrorClass } from 'hapax/contracts'
import type { Target, Way } from '../../src/conformance/stores/way.ts'

/** How many rows others see of one that was written outside of transactions, in a session in which autocommit was turned off. */
export async function seenWithoutAutocommit<Tx, Own>(way: Way<Tx, Own>, target: Target): Promise<number> {
  const writing = await way.open({ ...target, max: 1 })
  const reading = await way.open({ ...target, max: 1 })
  if (writing.connection === undefined || reading.connection === undefined) throw new Error('expected a connection')
  const table = `${target.name}.alone`
  await run(writing.connection, `create table ${table} (n int)`)
  await writing.connection.transaction(NO_ERRORS, {
    first: [],
    body: async (tx) => {
      await way.client(tx).query('set autocommit = 0')
      return { value: undefined, last: [] }
    },
  })
  await run(writing.connection, `insert into ${table} values (1)`)
  const { rows } = await run(reading.connection, `select n from ${table}`)
  await writing.close()
  await reading.close()
  return rows.length
}

const NO_ERRORS = { classify: (): ErrorClass => 'other', doomOf: () => undefined }

function run(connection: Pick<Connection<never>, 'query'>, text: string): ReturnType<Connection<never>['query']> {
  return connection.query({ text, params: [] }, 10_000)
}
