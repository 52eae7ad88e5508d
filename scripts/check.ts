// Checks everything that needs no server, all steps concurrently: `npm run check`.
import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { stripVTControlCharacters, styleText } from 'node:util'
import manifest from '../package.json' with { type: 'json' }
import { generate, generateExample } from '../test/support/prisma/generate.ts'

const root = join(import.meta.dirname, '..')
const env = {
  ...process.env,
  PATH: join(root, 'node_modules', '.bin') + delimiter + process.env.PATH,
  NODE_COMPILE_CACHE: join(tmpdir(), 'hapax-compile-cache'),
}

/** What has been checked before, so that the next run checks only what has changed. */
const CHECKED = join('node_modules', '.cache', 'hapax', 'checked.tsbuildinfo')

interface Result {
  ok: boolean
  output: string
}

const steps: Record<string, () => Promise<Result>> = {
  // All steps run concurrently, and several checkers would do some of the work twice.
  types: () =>
    inOrder(root, [
      ['tsc', '--project', 'tsconfig.json', '--checkers', '1', '--incremental', '--tsBuildInfoFile', CHECKED],
      ['tsc', '--project', 'src/console/page', '--checkers', '1', '--noEmit'],
      ['tsc', '--project', 'examples/apps/nestjs-typeorm', '--checkers', '1', '--noEmit', '--rootDir', '.'],
    ]),
  'lint and format': () => run('biome', ['check', '--error-on-warnings', '--diagnostic-level=warn']),
  exports: checkExports,
  'dead code': () => run('knip', []),
  'unit tests': () => run('vitest', ['run', '--project', 'unit']),
}

// Types are checked against what Prisma generates.
generate()
generateExample()
const results = await Promise.all(Object.entries(steps).map(([name, step]) => report(name, step)))
process.exitCode = results.every(Boolean) ? 0 : 1

async function report(name: string, step: () => Promise<Result>): Promise<boolean> {
  const start = performance.now()
  const { ok, output } = await step()
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  console.log(`${ok ? styleText('green', 'ok  ') : styleText('red', 'FAIL')} ${name} (${seconds} s)`)
  if (!ok) console.log(quoted(output))
  return ok
}

/** Colours double the size of a log that somebody else may keep only a part of. */
function quoted(output: string): string {
  const text = process.stdout.isTTY ? output : stripVTControlCharacters(output)
  return text.trimEnd().replaceAll(/^/gm, '  | ')
}

/** Builds and packs a copy of the package, so that the check neither needs nor changes `dist`. */
async function checkExports(): Promise<Result> {
  const copy = mkdtempSync(join(tmpdir(), 'hapax-check-'))
  try {
    const packedFiles = manifest.files.filter((name) => name !== 'dist' && !name.startsWith('!'))
    for (const name of ['package.json', 'tsconfig.json', 'tsconfig.build.json', ...packedFiles]) {
      cpSync(join(root, name), join(copy, name), { recursive: true })
    }
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    const packed = `${manifest.name}-${manifest.version}.tgz`
    return await inOrder(copy, [
      // The first step checks the types; emitting declarations still checks what they need.
      ['tsc', '--project', 'tsconfig.build.json', '--noCheck'],
      ['npm', 'pack', '--ignore-scripts', '--silent'],
      ['publint', 'run', '--strict', packed],
      // Only node16 and node18 let no CommonJS file import an ES module: `hapax init` says so.
      ['attw', packed, '--ignore-rules', 'cjs-resolves-to-esm'],
    ])
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

async function inOrder(cwd: string, commands: [string, ...string[]][]): Promise<Result> {
  for (const [command, ...args] of commands) {
    const result = await run(command, args, cwd)
    if (!result.ok) return result
  }
  return { ok: true, output: '' }
}

function run(command: string, args: string[], cwd: string = root): Promise<Result> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = `$ ${command} ${args.join(' ')}\n`
    const collect = (chunk: Buffer) => {
      output += chunk
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    child.on('error', (error) => resolve({ ok: false, output: `${output}${error.message}\n` }))
    child.on('close', (code) => resolve({ ok: code === 0, output }))
  })
}
