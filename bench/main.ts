// Ratios of neighbouring runs on the same servers: absolute figures depend on the machine and on what else it does.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { services } from '../scripts/services/all.ts'
import { type ServerName, serverVariables } from '../test/support/servers.ts'
import { machine } from './machine.ts'
import { progress, takeLines } from './measure.ts'
import { writePage } from './page/write.ts'
import { benchFor, type Choice, choose } from './part.ts'
import { parts } from './parts.ts'
import { mergeResults, type PartResult, type Results, readResults, writeResults } from './results.ts'

const HELP = `npm run bench                     everything, at full size: more than an hour; updates docs/performance.md
npm run bench -- --quick          everything at small sizes: three minutes on two quiet cores
npm run bench -- peers growth/cleanup   some parts, or sections of them

  --quick       fewer rounds and messages; no tables of millions
  --save        updates bench/results.json and docs/performance.md with the parts that ran; the default where everything
                runs at full size
  --draw        only makes docs/performance.md and its picture again
  --json FILE   writes the results of this run to a file
  --help

Parts:
${parts.map(({ name, about, sections }) => `  ${name.padEnd(13)} ${about}${sections ? `\n${' '.repeat(16)}sections: ${sections.join(' ')}` : ''}`).join('\n')}`

const OPTIONS = {
  quick: { type: 'boolean', default: false },
  save: { type: 'boolean', default: false },
  draw: { type: 'boolean', default: false },
  json: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const

process.exitCode = await main()

async function main(): Promise<number> {
  try {
    const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true })
    if (values.help) {
      console.log(HELP)
      return 0
    }
    if (values.draw) return draw()
    const choices = choose(parts, positionals)
    const needed = new Set(choices.flatMap(({ part }) => part.needs))
    if (process.env['HAPAX_BENCH_SERVERS'] === undefined && needed.size > 0) return await withServers([...needed])
    const found = await runAll(choices, values.quick)
    const results = { machine: machine(await versionsOf([...needed])), parts: found }
    if (values.json !== undefined) writeResults(results, values.json)
    if (values.save || (positionals.length === 0 && !values.quick)) save(results)
    return found.length === choices.length ? 0 : 1
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}`)
    return 1
  }
}

/** Runs the same command with the servers that it needs, and no others. */
async function withServers(needed: readonly ServerName[]): Promise<number> {
  const env = {
    ...process.env,
    HAPAX_BENCH_SERVERS: 'started',
    HAPAX_TEST_STORES: ['memory', ...needed.filter((name) => ['postgres', 'mysql', 'redis'].includes(name))].join(),
    HAPAX_TEST_BROKERS: needed.filter((name) => ['rabbitmq', 'nats', 'kafka'].includes(name)).join() || 'none',
  }
  const own = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  const script = join(import.meta.dirname, '..', 'scripts', 'services.ts')
  const child = spawn(process.execPath, [script, ...own], { stdio: 'inherit', env })
  // The terminal sends Ctrl-C to both; the servers end with the child.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill())
  const [code] = await once(child, 'exit')
  return code ?? 1
}

/** Runs one part after the other; one that fails does not take the results of the others with it. */
async function runAll(choices: readonly Choice[], quick: boolean): Promise<PartResult[]> {
  const [date, commit] = [new Date().toISOString().slice(0, 10), commitOf()]
  const found: PartResult[] = []
  for (const choice of choices) {
    const { name, needs } = choice.part
    const missing = needs.find((server) => process.env[serverVariables[server]] === undefined)
    if (missing !== undefined) {
      console.error(`bench: ${name} left out: ${missing} is not there`)
      continue
    }
    progress(name)
    const begun = performance.now()
    try {
      await choice.part.run(benchFor(choice, quick, urlOf))
      const seconds = Math.round((performance.now() - begun) / 1000)
      found.push({ part: name, date, commit, quick, seconds, lines: takeLines() })
    } catch (error) {
      takeLines()
      console.error(`bench: ${name} failed:`, error)
    }
  }
  return found
}

function urlOf(server: ServerName): string {
  const url = process.env[serverVariables[server]]
  if (url === undefined) throw new Error(`expected ${serverVariables[server]} to be set`)
  return url
}

async function versionsOf(needed: readonly ServerName[]): Promise<readonly string[]> {
  const asked = services.filter(({ name }) => needed.includes(name) && process.env[serverVariables[name]] !== undefined)
  return await Promise.all(asked.map(({ name, ping }) => ping(urlOf(name))))
}

function commitOf(): string {
  const git = (...args: string[]): string => spawnSync('git', args, { encoding: 'utf8' }).stdout?.trim() ?? ''
  return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', 'src') === '' ? '' : ' and changes')
}

function save(results: Results): void {
  const order = parts.map(({ name }) => name)
  writeResults(mergeResults(readResults(), results, order))
  draw()
}

function draw(): number {
  const results = readResults()
  if (results === undefined) throw new Error('expected bench/results.json to exist')
  writePage(results)
  return 0
}
