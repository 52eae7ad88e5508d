import { randomBytes } from 'node:crypto'
import { createHapax, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import mysql2 from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { requireServer } from '../support/servers.ts'

it('K21: migrate needs to read, where nothing is missing', async () => {
  const admin = await mysql2.createConnection(requireServer('mysql'))
  const database = `hapax_${randomBytes(6).toString('hex')}`
  const user = `u_${randomBytes(4).toString('hex')}`
  await admin.query(`create database ${database}`)
  await admin.query(`create user '${user}'@'%' identified by 'Secret-1'`)
  const pools = [
    mysql2.createPool({ uri: requireServer('mysql'), database }),
    mysql2.createPool({ uri: requireServer('mysql'), database, user, password: 'Secret-1' }),
  ] as const
  onTestFinished(async () => {
    for (const pool of pools) await pool.end()
    await admin.query(`drop user '${user}'@'%'`)
    await admin.query(`drop database ${database}`)
    await admin.end()
  })
  const on = (pool: mysql2.Pool) => createHapax({ store: mysql({ pool }), source: '/test', logger: silentLogger })
  await on(pools[0]).migrate()
  await admin.query(`grant select on ${database}.hapax_migrations to '${user}'@'%'`)
  expect(await on(pools[1]).migrate()).toEqual([])
})
