// Packs hapax and installs it in empty projects, once for all test files.
import { type ExecFileSyncOptions, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { TestProject } from 'vitest/node'
import manifest from '../../package.json' with { type: 'json' }
import { NoRegistry, newestNode, nodeProgram, npmInstall, oldestNode } from '../support/registry.ts'
import { askedRuntime, runtimeProgram } from '../support/runtimes.ts'

const root = join(import.meta.dirname, '..', '..')
const { devDependencies } = manifest

/** What the tests are told. */
export interface Packed {
  /** What `npm pack` made. */
  readonly tarball: string
  /** A project with the clients of today. */
  readonly project: string
  /** A project with an old `pg` and an old `amqplib`, and no other client. */
  readonly old: string
  /** A project with clients that are too old, into which hapax was forced. */
  readonly forced: string
  /** The programs of Node.js, by version, and of the runtime that was asked for. */
  readonly nodes: Readonly<Record<string, string>>
}

declare module 'vitest' {
  interface ProvidedContext {
    packed: Packed | { readonly skip: string }
  }
}

/** Node.js versions that are refused. */
export const REFUSED = ['20.19.0', '22.12.0', '23.11.0']

export default async function setup(project: TestProject): Promise<() => void> {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-packed-'))
  try {
    project.provide('packed', await make(directory))
  } catch (error) {
    if (!(error instanceof NoRegistry)) throw error
    project.provide('packed', { skip: error.message })
  }
  return () => rmSync(directory, { recursive: true, force: true })
}

async function make(directory: string): Promise<Packed> {
  const versions = [oldestNode, newestNode, ...REFUSED]
  const nodes = await Promise.all(versions.map(async (version) => [version, await nodeProgram(version)] as const))
  const asked = askedRuntime()
  const tarball = pack(join(directory, 'package'))
  const { pg, mysql2, amqplib, typescript } = devDependencies
  return {
    tarball,
    project: await install(join(directory, 'project'), tarball, {
      pg,
      mysql2,
      amqplib,
      typescript,
      '@types/node': devDependencies['@types/node'],
      '@types/pg': devDependencies['@types/pg'],
    }),
    old: await install(join(directory, 'old'), tarball, { pg: lowest('pg'), amqplib: lowest('amqplib') }),
    forced: await install(join(directory, 'forced'), tarball, { pg: '8.8.0', amqplib: '0.9.1' }, '--force'),
    nodes: { ...Object.fromEntries(nodes), ...(asked && { [asked]: await runtimeProgram(asked) }) },
  }
}

function lowest(name: keyof typeof manifest.peerDependencies): string {
  return manifest.peerDependencies[name].replace('>=', '')
}

/** Builds and packs a copy, so that `dist` is neither needed nor disturbed. */
function pack(copy: string): string {
  mkdirSync(copy)
  for (const name of ['package.json', 'tsconfig.json', 'tsconfig.build.json', ...manifest.files]) {
    const from = join(root, name)
    if (name !== 'dist' && existsSync(from)) cpSync(from, join(copy, name), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const env = { ...process.env, PATH: join(root, 'node_modules', '.bin') + delimiter + process.env.PATH }
  const options: ExecFileSyncOptions = { cwd: copy, env, stdio: ['ignore', 'ignore', 'inherit'] }
  execFileSync('tsc', ['--project', 'tsconfig.build.json', '--noCheck'], options)
  execFileSync('node', [join(root, 'scripts', 'build-console.ts')], options)
  cpSync(join(root, 'src', 'console', 'static'), join(copy, 'dist', 'console', 'static'), { recursive: true })
  execFileSync('npm', ['pack', '--ignore-scripts', '--silent'], options)
  return join(copy, `${manifest.name}-${manifest.version}.tgz`)
}

/** An empty project, with the packages that it has already, into which hapax is installed as its documentation says. */
export async function install(
  directory: string,
  tarball: string,
  dependencies: Readonly<Record<string, string>>,
  ...how: string[]
): Promise<string> {
  mkdirSync(directory)
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies }))
  await npmInstall(directory)
  await npmInstall(directory, tarball, ...how)
  return directory
}
