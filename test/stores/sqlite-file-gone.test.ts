import { copyFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { createClient } from '@libsql/client'
import Database from 'better-sqlite3'
import { createHapax, defineMessage, type Store, silentLogger } from 'hapax'
import { fromBetterSqlite3 } from 'hapax/better-sqlite3'
import { fromKnex } from 'hapax/knex'
import { fromLibsql } from 'hapax/libsql'
import { sqlite } from 'hapax/sqlite'
import Knex from 'knex'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { temporaryFile } from '../support/sqlite-file.ts'

const Placed = defineMessage<{ n: number }>('placed')
let last = 0
const placed = () => ({ id: `m${++last}`, source: '/shop', type: 'placed', data: { n: 1 } })

const ways: Readonly<Record<string, (path: string) => Store<never, unknown>>> = {
  'node:sqlite': (path) => sqlite({ path }) as never,
  'better-sqlite3': (path) => {
    const db = new Database(path)
    onTestFinished(() => void db.close())
    return sqlite(fromBetterSqlite3(db)) as never
  },
  knex: (path) => {
    const knex = Knex({ client: 'better-sqlite3', connection: { filename: path }, useNullAsDefault: true })
    onTestFinished(() => knex.destroy())
    return sqlite(fromKnex(knex)) as never
  },
  libsql: (path) => {
    const client = createClient({ url: pathToFileURL(path).href })
    onTestFinished(() => client.close())
    return sqlite(fromLibsql(client)) as never
  },
}

describe.each(Object.keys(ways))('a file that is open on %s', (way) => {
  /** A consumer on the file, and the error with which a message is refused later. */
  async function opened(path = temporaryFile()) {
    const store = ways[way]?.(path)
    if (store === undefined) throw new Error(`unknown: ${way}`)
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    onTestFinished(() => hapax.close())
    await hapax.migrate()
    const billing = hapax.consumer('billing').on(Placed, () => {})
    const status = async () => (await billing.handle(placed())).status
    expect(await status()).toBe('processed')
    /** Without a write-ahead log, SQLite itself may refuse the first messages, with another text. */
    const refused = async (saying: RegExp): Promise<unknown> => {
      let refusal: unknown
      await until(async () => {
        refusal = await status().catch((error: unknown) => error)
        return saying.test(String(refusal))
      }, 'a refusal that says why')
      return refusal
    }
    return { path, hapax, status, refused }
  }

  it('takes no more messages once it is deleted, because their effects would be lost', async () => {
    const { path, hapax, refused, status } = await opened()
    rmSync(path)
    const said = /was deleted while it was open.*restart this process/
    expect(await refused(said)).toMatchObject({ code: 'store-unavailable', fields: { path } })
    await expect(status()).rejects.toMatchObject({ code: 'store-unavailable' })
    // Heartbeats and looks of workers are refused as well, so that they are not ready.
    await expect(hapax.failed.count()).rejects.toMatchObject({ code: 'store-unavailable' })
  })

  it('takes no more messages once it is replaced, and continues when it is put back', async () => {
    const { path, refused, status } = await opened()
    copyFileSync(path, `${path}.copy`)
    renameSync(path, `${path}.old`)
    renameSync(`${path}.copy`, path)
    const said = /was replaced by another one while it was open/
    expect(await refused(said)).toMatchObject({ code: 'store-unavailable' })
    renameSync(`${path}.old`, path)
    expect(await status()).toBe('processed')
  })

  // The other drivers report the path without its links.
  it.runIf(way === 'node:sqlite')('takes no more messages once a link in its path leads elsewhere', async () => {
    const [file, link] = [temporaryFile(), `${temporaryFile()}.link`]
    writeFileSync(file, '')
    symlinkSync(file, link)
    const { refused } = await opened(link)
    copyFileSync(file, `${file}.copy`)
    symlinkSync(`${file}.copy`, `${link}.new`)
    renameSync(`${link}.new`, link)
    const said = /was replaced by another one while it was open/
    expect(await refused(said)).toMatchObject({ code: 'store-unavailable', fields: { path: link } })
  })
})

it('a database in memory has no file to check', async () => {
  const hapax = createHapax({ store: sqlite({ path: ':memory:' }), source: '/shop', logger: silentLogger })
  onTestFinished(() => hapax.close())
  await hapax.migrate()
  const billing = hapax.consumer('billing').on(Placed, () => {})
  expect((await billing.handle(placed())).status).toBe('processed')
})
