import { sqliteHarness } from '../support/sqlite-harness.ts'
import { runStoreCases } from '../support/store-suite.ts'

runStoreCases(sqliteHarness)
