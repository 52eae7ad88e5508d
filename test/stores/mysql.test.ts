import { mysql2Way } from '../../src/conformance/stores/mysql2-way.ts'
import { mysqlHarness } from '../support/mysql-harness.ts'
import { requireServer } from '../support/servers.ts'
import { runStoreCases } from '../support/store-suite.ts'

runStoreCases(await mysqlHarness(requireServer('mysql'), mysql2Way))
