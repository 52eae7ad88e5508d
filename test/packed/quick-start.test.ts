import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, type TestContext } from 'vitest'
import { type DurableStore, durableStores, makeEmptyPlace, type Place } from '../support/databases.ts'
import { compiled, directoryIn, javascript, nodeOf, nodeVersions, packed, run } from './app.ts'

const readme = readFileSync(join(import.meta.dirname, '..', '..', 'README.md'), 'utf8')

/** The quick start as the README has it, with another store. */
function quickStart({ store, url, schema }: Place): string {
  const shown = /<!-- quick-start[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(readme)?.[1] ?? ''
  const file = `sqlite({ path: 'shop.db' })`
  expect(shown).toContain(file)
  const options = {
    sqlite: `{ path: 'shop.db' }`,
    postgres: `{ url: '${url}', schema: '${schema}' }`,
    mysql: `{ url: '${url}' }`,
  }
  return shown
    .replace(file, `${store}(${options[store]})`)
    .replace(`import { sqlite } from 'hapax/sqlite'`, `import { ${store} } from 'hapax/${store}'`)
}

/** What has to be written otherwise because the database speaks another SQL. */
function inItsSql(program: string, { store, schema }: Place): string {
  if (store !== 'postgres') return program
  return program.replace('(?, ?)', '($1, $2)').replaceAll(/(?<=exists |into |from )invoices/g, `${schema}.invoices`)
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
): Promise<void> {
  const told = packed(context)
  await using checker = await makeEmptyPlace(store)
  const directory = directoryIn(told.project)
  const program = await written[language](told.project, directory, inItsSql(quickStart(checker.place), checker.place))
  const start = async (): Promise<string> => {
    const { code, stdout, stderr } = await run(nodeOf(told, version), ['--no-warnings', program], { cwd: directory })
    expect(stderr).toBe('')
    expect(code).toBe(0)
    return stdout
  }
  expect(await start()).toBe('processed\nduplicate\n2\n')
  expect(await start()).toBe('duplicate\nduplicate\n3\n')
}

describe.for(nodeVersions)('the quick start on Node.js %s', (version) => {
  describe.for(durableStores().filter((name) => name !== 'mysql'))('on %s', (store) => {
    it.for(['JavaScript', 'TypeScript'] as const)('in %s prints what its comments say', (language, context) =>
      tryIt(context, store, language, version),
    )
  })
})
