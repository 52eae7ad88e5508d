import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { basename, join } from 'node:path'
import { inject, onTestFinished, type TestContext, vi } from 'vitest'
import { newestNode, oldestNode } from '../support/registry.ts'
import { askedRuntime } from '../support/runtimes.ts'
import type { Packed } from './setup.ts'

const asked = askedRuntime()

/** The versions of Node.js that everything is tried on, or the runtime that was asked for. */
export const nodeVersions: readonly [string, ...string[]] = asked === undefined ? [oldestNode, newestNode] : [asked]

/** The program of an installed version. */
export function nodeOf({ nodes }: Packed, version: string): string {
  const program = nodes[version]
  if (program === undefined) throw new Error(`Node.js ${version} was not installed`)
  return program
}

/** What was packed; skips the test where npm has no registry. */
export function packed({ skip }: Pick<TestContext, 'skip'>): Packed {
  const told = inject('packed')
  return 'skip' in told ? skip(told.skip) : told
}

/** A directory of its own inside a project, from where the packages of the project are found. */
export function directoryIn(project: string): string {
  return mkdtempSync(join(project, 'app-'))
}

/** Writes a program as plain JavaScript. */
export function javascript(directory: string, typescript: string, name = 'app'): string {
  const file = join(directory, `${name}.js`)
  writeFileSync(file, stripTypeScriptTypes(typescript))
  return file
}

const STRICT = {
  target: 'es2024',
  lib: ['es2024'],
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noPropertyAccessFromIndexSignature: true,
  skipLibCheck: false,
}

/** Compiles a program for both ways in which modules are found today; rejects with what `tsc` says. */
export async function compiled(project: string, directory: string, typescript: string): Promise<string> {
  writeFileSync(join(directory, 'app.ts'), typescript)
  await tsc(project, directory, { module: 'preserve', moduleResolution: 'bundler', noEmit: true })
  await tsc(project, directory, { module: 'nodenext', outDir: 'out', rootDir: '.' })
  return join(directory, 'out', 'app.js')
}

/** Compiles `app.ts` of a directory, strictly and with these options; rejects with what `tsc` says. */
export async function tsc(project: string, directory: string, options: object): Promise<void> {
  const compilerOptions = { ...STRICT, ...options }
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['app.ts'] }))
  const program = join(project, 'node_modules', 'typescript', 'bin', 'tsc')
  const { code, stdout, stderr } = await run(process.execPath, [program, '--checkers', '1'], { cwd: directory })
  if (code !== 0) throw new Error(`tsc of ${basename(directory)} says:\n${stdout}${stderr}`)
}

/** How a program is started. */
export interface Start {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** What a program printed, and how it ended. */
export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end. */
export function run(program: string, args: readonly string[], start: Start): Promise<Ran> {
  return new Service(program, args, start).ended
}

/** A program that goes on until it is told to stop. */
export class Service {
  readonly ended: Promise<Ran>
  readonly #process: ChildProcess
  #stdout = ''
  #stderr = ''

  constructor(program: string, args: readonly string[], { cwd, env = {} }: Start) {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, NODE_OPTIONS: '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#process = child
    child.stdout.on('data', (chunk) => {
      this.#stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      this.#stderr += chunk
    })
    this.ended = once(child, 'close').then(([code]) => ({ code, stdout: this.#stdout, stderr: this.#stderr }))
    onTestFinished(() => void child.kill('SIGKILL'))
  }

  /** What it has printed so far. */
  get stdout(): string {
    return this.#stdout
  }

  /** Waits until the program has printed something. */
  async printed(text: string): Promise<void> {
    await vi.waitUntil(() => this.#stdout.includes(text) || this.#process.exitCode !== null, { timeout: 60_000 })
    if (!this.#stdout.includes(text))
      throw new Error(`it ended before it printed ${text}:\n${this.#stdout}${this.#stderr}`)
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal)
  }
}
