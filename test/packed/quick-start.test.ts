import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, type TestContext } from 'vitest'
import { temporaryDirectory } from '../support/cli.ts'
import { type DurableStore, durableStores, makeEmptyPlace, type Place } from '../support/databases.ts'
import { oldestNode } from '../support/registry.ts'
import { compiled, directoryIn, javascript, nodeOf, nodeVersions, packed, run } from './app.ts'

/** The quick start that a page shows. */
function shownOn(page: string): string {
  const text = readFileSync(join(import.meta.dirname, '..', '..', page), 'utf8')
  return /<!-- quick-start[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(text)?.[1] ?? ''
}

const programs: Readonly<Record<DurableStore, (place: Place) => string>> = {
  sqlite: () => shownOn('README.md'),
  mysql: () => shownOn('docs/stores/mysql.md'),
  // The same with another store and other parameters, and in a schema of its own, because the server is shared.
  postgres: ({ url, schema }) =>
    shownOn('README.md')
      .replace(`import { sqlite } from 'hapax/sqlite'`, `import { postgres } from 'hapax/postgres'`)
      .replace(`sqlite({ path: 'shop.db' })`, `postgres({ url: '${url}', schema: '${schema}' })`)
      .replace('(?, ?)', '($1, $2)')
      .replaceAll(/(?<=exists |into |from )invoices/g, `${schema}.invoices`),
}

const written = {
  JavaScript: async (_: string, directory: string, text: string) => javascript(directory, text),
  TypeScript: compiled,
}

async function tryIt(
  context: TestContext,
  store: DurableStore,
  language: keyof typeof written,
  version: string,
  project: 'project' | 'old' = 'project',
): Promise<void> {
  const told = packed(context)
  await using checker = await makeEmptyPlace(store)
  const cwd = directoryIn(told[project])
  const program = await written[language](told[project], cwd, programs[store](checker.place))
  const start = async (): Promise<string> => {
    const env = { MYSQL_URL: checker.place.url }
    const { code, stdout, stderr } = await run(nodeOf(told, version), ['--no-warnings', program], { cwd, env })
    expect(stderr).toBe('')
    expect(code).toBe(0)
    return stdout
  }
  expect(await start()).toBe('processed\nduplicate\n2\n')
  expect(await start()).toBe('duplicate\nduplicate\n3\n')
}

describe.for(nodeVersions)('the quick start on Node.js %s', (version) => {
  describe.for(durableStores())('on %s', (store) => {
    it.for(['JavaScript', 'TypeScript'] as const)('in %s prints what its comments say', (language, context) =>
      tryIt(context, store, language, version),
    )
  })
})

it.runIf(durableStores().includes('postgres'))('the quick start prints the same with the oldest pg', (context) =>
  tryIt(context, 'postgres', 'JavaScript', oldestNode, 'old'),
)

it('the quick start runs in a folder that npm init has made, under the name that the README gives it', async (context) => {
  const told = packed(context)
  const cwd = temporaryDirectory()
  const npm = async (...args: string[]): Promise<string> => {
    const { code, stderr } = await run('npm', [...args, '--prefer-offline', '--no-audit', '--no-fund'], { cwd })
    expect(code, stderr).toBe(0)
    return stderr
  }
  await npm('init', '-y')
  expect(JSON.parse(readFileSync(join(cwd, 'package.json'), 'utf8')).type).not.toBe('module')
  expect(await npm('install', told.tarball)).not.toContain('install script')
  const readme = readFileSync(join(import.meta.dirname, '..', '..', 'README.md'), 'utf8')
  const command = /and run `node (\S+)`:\n\n<!-- quick-start/.exec(readme)?.[1] ?? ''
  writeFileSync(join(cwd, command), shownOn('README.md'))
  const ran = await run(nodeOf(told, oldestNode), ['--no-warnings', command], { cwd })
  expect(ran).toMatchObject({ code: 0, stdout: 'processed\nduplicate\n2\n', stderr: '' })
})
