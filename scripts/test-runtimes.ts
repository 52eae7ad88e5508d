// Runs what depends on the runtime on every version of Node.js, on Bun and on Deno: `npm run test:runtimes`, or on some of them:
// `npm run test:runtimes -- node-22.18 bun`. What it finds goes into docs/support.md.
import { execFileSync } from 'node:child_process'
import { delimiter, dirname, join } from 'node:path'
import { type RuntimeName, runtimeNames, runtimeProgram } from '../test/support/runtimes.ts'
import { requireServer } from '../test/support/servers.ts'
import { askedNames } from './asked.ts'
import { countTests } from './counted.ts'
import { countCases } from './runtimes/cases.ts'
import { figuresOf, parts, recordRuntime, type Shown } from './runtimes/table.ts'

const root = join(import.meta.dirname, '..')
/** Of the tests of the package, those that start it on a runtime. */
const PACKED = 'test/packed/{console,demo,first-hour,quick-start,stopping,unknown-types}.test.ts'

const help = `Usage: npm run test:runtimes [-- <runtime> ...]

Runs, on each runtime, the conformance suites of SQLite and PostgreSQL, the quick starts, the demonstration and other programs with the
packed package, and on Node.js the unit tests; updates its row in docs/support.md. Without names, all of them.
  ${runtimeNames.join(' ')}
`

process.exitCode = await main()

async function main(): Promise<number> {
  const chosen = askedNames(runtimeNames, help)
  const lines: Record<string, string>[] = []
  let failed = 0
  for (const [index, name] of chosen.entries()) {
    console.error(`runtimes: ${name} (${index + 1} of ${chosen.length})`)
    const program = await runtimeProgram(name)
    const [said, shown] = [versionOf(name, program), await shownOn(name, program)]
    recordRuntime(name, said, shown, new Date())
    lines.push({ runtime: said, ...Object.fromEntries(parts.map((part) => [part, figuresOf(shown[part])])) })
    for (const { failed: some } of Object.values(shown)) failed += some
  }
  console.table(lines)
  return failed === 0 ? 0 : 1
}

/** The version that a runtime prints: `v22.18.0`, `1.4.4`, `deno 2.9.6 (…)`. */
function versionOf(name: RuntimeName, program: string): string {
  const printed = execFileSync(program, ['--version'], { encoding: 'utf8' })
  return `${titleOf(name)} ${/\d+\.\d+\.\d+/.exec(printed)?.[0]}`
}

function titleOf(name: RuntimeName): string {
  if (name === 'bun') return 'Bun'
  return name === 'deno' ? 'Deno' : 'Node.js'
}

async function shownOn(name: RuntimeName, program: string): Promise<Shown> {
  const env = { HAPAX_TEST_ON: name }
  const shown = {
    SQLite: await countCases(program, { store: 'sqlite' }),
    PostgreSQL: await countCases(program, { store: 'postgres', url: requireServer('postgres') }),
    package: await countTests(root, [PACKED], env),
  }
  if (!name.startsWith('node-')) return shown
  // The program of vitest asks the PATH for Node.js. What compares the page of these rows is about no runtime.
  const PATH = dirname(program) + delimiter + process.env.PATH
  return { ...shown, 'unit tests': await countTests(root, ['test/unit/**/!(support-page).test.ts'], { PATH }) }
}
