// Started by scripts/services.ts, with the servers of one version: runs the suites, and writes down what the server says that it is, and
// how many tests ended how. Arguments: the name of the version, and where to write.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { requireServer } from '../../test/support/servers.ts'
import { type Counted, countTests } from '../counted.ts'
import { services } from '../services/all.ts'
import { pgbouncer } from '../services/pgbouncer.ts'
import { suites } from './suites.ts'
import { versions } from './versions.ts'

/** What is written down. */
export interface Run extends Counted {
  /** `MySQL 9.7.4` */
  readonly said: string
}

const [name, file = ''] = process.argv.slice(2)
const version = versions.find((each) => each.name === name)
if (version === undefined) throw new Error(`expected a version, got '${name}'`)
const { service, says } = version
const url = requireServer(service)
const said = await [...services, pgbouncer(url)].find((each) => each.name === service)?.ping(url)
if (said === undefined || !(said === says || said.startsWith(`${says}.`))) {
  throw new Error(`expected ${says}, and the server at ${url} says that it is ${said}`)
}
const counted = await countTests(join(import.meta.dirname, '..', '..'), suites[service].files)
writeFileSync(file, JSON.stringify({ said, ...counted } satisfies Run))
