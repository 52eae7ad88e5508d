import { nodeSqliteWay } from '../support/node-sqlite-way.ts'
import { sqliteHarness } from '../support/sqlite-harness.ts'
import { runStoreCases } from '../support/store-suite.ts'

runStoreCases(await sqliteHarness(nodeSqliteWay))
