import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { violations } from '../support/architecture.ts'

const root = new URL('../../', import.meta.url)
const sources = globSync('src/**/*.{ts,tsx}', { cwd: root }).map((path) => path.replaceAll('\\', '/'))

describe('the sources', () => {
  it.for(sources)('%s imports only what its place allows', (path) => {
    expect(violations(path, readFileSync(new URL(path, root), 'utf8'))).toEqual([])
  })
})

describe('the rule', () => {
  const allowed: [path: string, source: string][] = [
    ['src/index.ts', `export { createHapax } from './hapax.ts'\nexport type { Clock } from './base/index.ts'`],
    ['src/hapax.ts', `import { createHash } from 'node:crypto'\nimport { Consumer } from './consumer/index.ts'`],
    ['src/worker/lines/inbox.ts', `import { Membership } from '../membership.ts'`],
    ['src/consumer/direct.ts', `import { Attempt } from '../transaction/index.ts'`],
    [
      'src/stores/postgres/index.ts',
      `import { claim } from './statements/sql.ts'\nimport { frozen } from '../../base/index.ts'`,
    ],
    ['src/stores/postgres/index.ts', `import { SqlStore } from '../sql/index.ts'`],
    ['src/brokers/nats/index.ts', `import { Deliveries } from '../kit/index.ts'`],
    ['src/connections/drizzle.ts', `import { doomed } from '../stores/sql/index.ts'`],
    ['src/telemetry/prometheus/index.ts', `import { measure } from '../metrics/index.ts'`],
    ['src/telemetry/opentelemetry/index.ts', `import { trace } from '@opentelemetry/api'`],
    ['src/stores/postgres/index.ts', `import type { Pool } from 'pg'\nconst pg = await import('pg')`],
    ['src/stores/postgres/index.ts', `type Pool = import('pg').Pool\nexport type { Client } from 'pg'`],
    ['src/testing/index.ts', `export * from './store/index.ts'`],
    ['src/cli/main.ts', `import { Command } from 'commander'\nimport { postgres } from '../stores/postgres/index.ts'`],
    ['src/cli/commands/init.ts', "const template = `\nimport pg from 'pg'\n`"],
    ['src/nestjs/module.ts', `import { createHapax } from '../index.ts'\nimport { Module } from '@nestjs/common'`],
    ['src/hapax.ts', `// import pg from 'pg'\n/** import('../stores/memory/index.ts') */`],
    ['src/cli/config.ts', 'const config = await import(path)'],
    ['src/console/page/main.tsx', `import { render } from 'preact'\nimport type { Role } from '../api.ts'`],
  ]

  it.for(allowed)('allows %s: %s', ([path, source]) => {
    expect(violations(path, source)).toEqual([])
  })

  const forbidden: [path: string, source: string, reason: string][] = [
    ['src/base/clock.ts', `import { x } from '../message/index.ts'`, 'base imports only node:'],
    ['src/message/type.ts', `import type { Store } from '../contracts/index.ts'`, 'message imports only node:, base'],
    [
      'src/consumer/direct.ts',
      `import { W } from '../worker/index.ts'`,
      'consumer imports only node:, base, web, message',
    ],
    ['src/consumer/direct.ts', `import { memory } from '../stores/memory/index.ts'`, 'consumer imports only'],
    ['src/consumer/direct.ts', `import { Deadline } from '../transaction/deadline.ts'`, 'entered by its index.ts'],
    ['src/consumer/direct.ts', `import type { Pool } from 'pg'`, 'consumer imports only node: and the layers below'],
    ['src/hapax.ts', `import type { Pool } from 'pg'`, 'hapax imports only node: and the layers below'],
    ['src/hapax.ts', `import { memory } from './stores/memory/index.ts'`, 'hapax imports only the layers'],
    ['src/index.ts', `export { memory } from './stores/memory/index.ts'`, 'index imports only the layers'],
    ['src/stores/postgres/index.ts', `import { x } from '../mysql/index.ts'`, 'stores/postgres imports only'],
    ['src/stores/postgres/index.ts', `import { x } from '../../worker/index.ts'`, 'stores/postgres imports only'],
    ['src/stores/postgres/index.ts', `import { x } from '../sql/units.ts'`, 'stores/sql is entered by its index.ts'],
    [
      'src/stores/memory/index.ts',
      `const m = await import('../../brokers/memory/index.ts')`,
      'stores/memory imports only',
    ],
    ['src/stores/sql/units.ts', `import { x } from '../postgres/index.ts'`, 'stores/sql imports only'],
    ['src/brokers/kit/deliveries.ts', `import { x } from '../nats/index.ts'`, 'brokers/kit imports only'],
    ['src/brokers/nats/index.ts', `import { x } from '../../stores/sql/index.ts'`, 'brokers/nats imports only'],
    ['src/telemetry/metrics/measure.ts', `import { W } from '../../worker/index.ts'`, 'telemetry/metrics imports only'],
    ['src/stores/memory/index.ts', `import '../../cli/main.ts'`, 'stores/memory imports only'],
    ['src/stores/memory/index.ts', `import { x } from '../../index.ts'`, 'stores/memory imports only'],
    ['src/testing/index.ts', `export { memory } from '../stores/memory/index.ts'`, 'testing imports only the layers'],
    ['src/stores/postgres/index.ts', `import pg from 'pg'`, `import type, or import() where it is used`],
    ['src/stores/postgres/index.ts', `import { type Pool } from 'pg'`, `import type, or import() where it is used`],
    ['src/stores/postgres/index.ts', `export { Pool } from 'pg'`, `import type, or import() where it is used`],
    [
      'src/telemetry/prometheus/index.ts',
      `import { trace } from '@opentelemetry/api'`,
      `import type, or import() where it is used`,
    ],
    ['src/console/page/main.tsx', `import { x } from '../api.ts'`, 'imports types of src/console/api.ts only'],
    ['src/console/page/main.tsx', `import pg from 'pg'`, 'is built of preact, @preact/signals, uplot'],
    ['src/console/static.ts', `import { x } from './page/main.tsx'`, 'console/page is for browsers'],
    ['src/nestjs/runner.ts', `import { W } from '../worker/index.ts'`, 'nestjs imports only node:, base'],
    ['src/nestjs/idempotent.ts', `import express from 'express'`, `import type, or import() where it is used`],
    ['src/console/server.ts', `import { Hono } from 'hono'`, `import type, or import() where it is used`],
    ['src/console/server.ts', `import { Command } from 'commander'`, `import type, or import() where it is used`],
    ['src/cli/main.ts', `import { createHapax } from 'hapax'`, 'the sources import each other by relative path'],
    ['src/cli/main.ts', `import { requireServer } from '../../test/support/servers.ts'`, 'leaves src/'],
    ['src/utils/strings.ts', `export const a = 1`, 'src/utils/ has no place in the layout'],
    ['src/helpers.ts', `export const a = 1`, 'src/helpers.ts has no place in the layout'],
  ]

  it.for(forbidden)('forbids %s: %s', ([path, source, reason]) => {
    expect(violations(path, source)).toEqual([expect.stringContaining(reason)])
  })

  it('names the line, the import and the remedy', () => {
    expect(violations('src/stores/mysql/index.ts', `const a = 1\nimport mysql from 'mysql2/promise'`)).toEqual([
      "src/stores/mysql/index.ts:2 imports 'mysql2/promise': client libraries are the user's, so use import type, or import() where it is used",
    ])
  })
})
