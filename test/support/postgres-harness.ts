import type { StoreHarness } from 'hapax/testing'
import { afterAll } from 'vitest'
import { PostgresGround } from '../../src/conformance/stores/postgres.ts'
import type { Way } from '../../src/conformance/stores/way.ts'

const grounds = new Map<string, Promise<PostgresGround>>()

function groundAt(url: string): Promise<PostgresGround> {
  const known = grounds.get(url)
  if (known !== undefined) return known
  const ground = PostgresGround.at(url, `suite_${process.pid}_${grounds.size}`)
  afterAll(async () => (await ground).close())
  grounds.set(url, ground)
  return ground
}

/** The conformance harness of PostgreSQL on a server: a schema for each case. */
export async function postgresHarness<Tx, Own>(url: string, way: Way<Tx, Own>): Promise<StoreHarness<Tx, Own>> {
  return (await groundAt(url)).harness(way)
}
