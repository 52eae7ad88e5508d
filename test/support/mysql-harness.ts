import type { StoreHarness } from 'hapax/testing'
import mysql2 from 'mysql2/promise'
import { afterAll } from 'vitest'
import { MysqlGround } from '../../src/conformance/stores/mysql.ts'
import type { Way } from '../../src/conformance/stores/way.ts'

const grounds = new Map<string, Promise<MysqlGround>>()

function groundAt(url: string): Promise<MysqlGround> {
  const known = grounds.get(url)
  if (known !== undefined) return known
  const ground = MysqlGround.at(url, `suite_${process.pid}_${grounds.size}`)
  afterAll(async () => (await ground).close())
  grounds.set(url, ground)
  return ground
}

/** The conformance harness of MariaDB and MySQL on a server: a database for each case. */
export async function mysqlHarness<Tx, Own>(url: string, way: Way<Tx, Own>): Promise<StoreHarness<Tx, Own>> {
  return (await groundAt(url)).harness(way)
}

/** Whether a server is MariaDB, and not MySQL. */
export async function isMariadb(url: string): Promise<boolean> {
  const client = await mysql2.createConnection(url)
  const [rows] = await client.query<mysql2.RowDataPacket[]>('select version() as version')
  await client.end()
  return /mariadb/i.test(String(rows[0]?.['version']))
}
