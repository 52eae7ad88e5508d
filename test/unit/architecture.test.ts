import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { violations } from '../support/architecture.ts'

const root = new URL('../../', import.meta.url)
const sources = globSync('src/**/*.ts', { cwd: root }).map((path) => path.replaceAll('\\', '/'))

describe('the sources', () => {
  it.for(sources)('%s imports only what its place allows', (path) => {
    expect(violations(path, readFileSync(new URL(path, root), 'utf8'))).toEqual([])
  })
})

describe('the rule', () => {
  const allowed: [path: string, source: string][] = [
    ['src/index.ts', `export { createHapax } from './core/hapax.ts'`],
    ['src/hapax.ts', `import { createHash } from 'node:crypto'\nimport { Inbox } from './inbox.ts'`],
    ['src/core/sql/lock.ts', `import type { Store } from '../store.ts'`],
    [
      'src/stores/postgres/index.ts',
      `import { claim } from './sql.ts'\nimport { frozen } from '../../core/options.ts'`,
    ],
    ['src/stores/postgres/index.ts', `import type { Pool } from 'pg'\nconst pg = await import('pg')`],
    ['src/stores/postgres/index.ts', `type Pool = import('pg').Pool\nexport type { Client } from 'pg'`],
    ['src/stores/memory/index.ts', `import type { Store } from '../core/store.ts'`],
    ['src/testing/index.ts', `export * from './store-suite.ts'`],
    ['src/cli/main.ts', `import { Command } from 'commander'\nimport { postgres } from '../stores/postgres/index.ts'`],
    ['src/cli/init.ts', "const template = `\nimport pg from 'pg'\n`"],
    ['src/nestjs/module.ts', `import { createHapax } from '../index.ts'`],
    ['src/hapax.ts', `// import pg from 'pg'\n/** import('../stores/memory.ts') */`],
    ['src/cli/config.ts', 'const config = await import(path)'],
  ]

  it.for(allowed)('allows %s: %s', ([path, source]) => {
    expect(violations(path, source)).toEqual([])
  })

  const forbidden: [path: string, source: string, reason: string][] = [
    ['src/hapax.ts', `import { memory } from '../stores/memory.ts'`, 'core imports only node: and core'],
    ['src/hapax.ts', `import type { Pool } from 'pg'`, 'core imports only node: and core'],
    ['src/hapax.ts', `import { memory } from '../index.ts'`, 'core imports only node: and core'],
    ['src/index.ts', `export { memory } from './stores/memory.ts'`, 'src/index.ts imports only core'],
    ['src/stores/postgres/index.ts', `import { x } from '../mysql/sql.ts'`, 'stores/postgres never imports a sibling'],
    [
      'src/stores/postgres/index.ts',
      `import type { M } from '../memory.ts'`,
      'stores/postgres never imports a sibling',
    ],
    [
      'src/stores/memory/index.ts',
      `const m = await import('../brokers/memory.ts')`,
      'stores/memory never imports a sibling',
    ],
    ['src/stores/memory/index.ts', `import '../cli/main.ts'`, 'stores/memory never imports a sibling'],
    ['src/stores/memory/index.ts', `import { x } from '../index.ts'`, 'stores/memory never imports a sibling'],
    ['src/testing/index.ts', `export { memory } from '../stores/memory.ts'`, 'testing never imports a sibling'],
    ['src/stores/postgres/index.ts', `import pg from 'pg'`, `import type, or import() where it is used`],
    ['src/stores/postgres/index.ts', `import { type Pool } from 'pg'`, `import type, or import() where it is used`],
    ['src/stores/postgres/index.ts', `export { Pool } from 'pg'`, `import type, or import() where it is used`],
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
