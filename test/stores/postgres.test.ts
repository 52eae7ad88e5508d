import { afterAll } from 'vitest'
import { pgPool } from '../support/pg-pool.ts'
import { pgWay } from '../support/pg-way.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { requireServer } from '../support/servers.ts'
import { runStoreCases } from '../support/store-suite.ts'

const admin = pgPool({ connectionString: requireServer('postgres'), max: 4 })
afterAll(() => admin.end())

runStoreCases(postgresHarness(admin, pgWay))
