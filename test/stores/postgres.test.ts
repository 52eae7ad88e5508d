import { pgWay } from '../../src/conformance/stores/pg-way.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { requireServer } from '../support/servers.ts'
import { runStoreCases } from '../support/store-suite.ts'

runStoreCases(await postgresHarness(requireServer('postgres'), pgWay))
