import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer } from '../support/servers.ts'

const example = join(import.meta.dirname, '..', '..', 'examples', 'sharding.ts')

it('takes each message once when a shard is added, and again when it is run a second time', async () => {
  const url = new URL(requireServer('postgres'))
  const admin = pgPool({ connectionString: url.href, max: 1 })
  const names = ['a', 'b', 'c'].map((end) => `shard_${randomBytes(4).toString('hex')}_${end}`)
  onTestFinished(async () => {
    for (const name of names) await admin.query(`drop database if exists ${name} with (force)`)
    await admin.end()
  })
  for (const name of names) await admin.query(`create database ${name}`)
  const shards = names.map((name) => Object.assign(new URL(url), { pathname: name }).href)
  const run = async (): Promise<string[]> => {
    const env = { ...process.env, SHARDS: shards.join(',') }
    const args = ['--conditions=hapax-source', '--no-warnings', example]
    return (await promisify(execFile)(process.execPath, args, { env })).stdout.trim().split('\n')
  }
  expect(await run()).toEqual(['30 processed', '30 duplicate', 'true'])
  expect(await run()).toEqual(['30 duplicate', '30 duplicate', 'true'])

  const invoices = await Promise.all(
    shards.map(async (shard) => {
      const pool = pgPool({ connectionString: shard, max: 1 })
      const { rows } = await pool.query<{ id: string }>('select order_id as id from public.invoices')
      await pool.end()
      return rows.map(({ id }) => id)
    }),
  )
  expect(invoices.flat().sort()).toEqual(Array.from({ length: 30 }, (_, n) => `A${n}`).sort())
  expect(invoices.map(({ length }) => length > 0)).toEqual([true, true, false])
})
