// What is decided once for all files that init writes.

import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import type { Project } from '../project.ts'
import { type Injected, PLACE, type StoreTemplate } from './accesses.ts'
import { BROKERS, type BrokerTemplate } from './brokers.ts'
import type { Choices } from './choices.ts'

/** What the files are made from. */
export interface Setup extends Choices {
  readonly project: Project
  /** The name of the application, for the source of messages and for exchanges. */
  readonly app: string
  readonly template: StoreTemplate
  /** Whether to write a message type, a consumer and a worker. */
  readonly example: boolean
}

/** The file with the set-up, which says where the database is. */
export function mainFile(setup: Setup): string {
  return posix.join(sourceFolder(setup), `hapax.${extensionOf(setup.project)}`)
}

/** The file with the module of Nest. */
export function nestFile(setup: Setup): string {
  return posix.join(sourceFolder(setup), `hapax.module.${extensionOf(setup.project)}`)
}

/** JavaScript, even beside TypeScript: a compiler would put the output of all files one folder deeper. */
export function configName({ project }: Setup): string {
  return `hapax.config.${project.language === 'esm' ? 'js' : 'mjs'}`
}

/** Where source files are. */
export function sourceFolder({ project, framework }: Pick<Setup, 'project' | 'framework'>): string {
  if (existsSync(join(project.directory, 'src'))) return 'src'
  if (framework === 'next') return 'lib'
  return project.language === 'ts' ? 'src' : '.'
}

/** Compiled files are what their project makes of them; others need a name by which Node.js reads an ES module. */
export function extensionOf({ language, modules, compiler }: Project): string {
  if (language !== 'ts') return modules === 'esm' ? 'js' : 'mjs'
  return modules === 'esm' || (compiler !== undefined && !compiler.verbatim) ? 'ts' : 'mts'
}

/** How a file of the project imports another one, given without its ending. */
export function importPath({ project }: Pick<Setup, 'project'>, path: string, extension: string): string {
  const { language, modules, compiler } = project
  const isEsm = modules === 'esm' || extensionOf(project) === 'mts'
  const file = path.startsWith('.') ? path : `./${path}`
  if (language !== 'ts' || compiler === undefined || compiler.tsExtensions) return `${file}.${extension}`
  if (extension === 'mts') return `${file}.mjs`
  // Jest and bundlers do not find a source by the name of what it compiles to.
  return isEsm && /^node(?!10)/.test(compiler.moduleResolution) ? `${file}.js` : file
}

/** Nest finds its handlers by decorators, which only TypeScript has. */
export function isNest({ framework, project }: Pick<Setup, 'framework' | 'project'>): boolean {
  return framework === 'nestjs' && project.language === 'ts'
}

/** Whether the worker is made in the set-up: with Nest, its module makes it. */
export function hasWorker(setup: Setup): boolean {
  return !isNest(setup) && (setup.example || brokerOf(setup) !== undefined)
}

/** What Nest injects, if that is how the application gets its connection. */
export function injectedOf(setup: Setup): Injected | undefined {
  const { nest } = setup.template
  return nest !== undefined && isNest(setup) && setup.project.packages.has(nest.package) ? nest : undefined
}

/** The broker, if there is one. */
export function brokerOf({ broker }: Setup): BrokerTemplate | undefined {
  return broker === 'none' ? undefined : BROKERS[broker]
}

/** Whether `connected` has to be awaited. */
export function connectsLate(setup: Setup): boolean {
  return setup.template.connect !== undefined && (setup.project.modules === 'cjs' || isNest(setup))
}

/** The folder into which Prisma generates the client, if it is one of the project. */
export function prismaOutput({ directory }: Project): string | undefined {
  const file = join(directory, 'prisma', 'schema.prisma')
  if (!existsSync(file)) return undefined
  const [generator = ''] =
    /generator\s+\w+\s*\{[^}]*provider\s*=\s*"prisma-client"[^}]*\}/.exec(readFileSync(file, 'utf8')) ?? []
  const output = /output\s*=\s*"([^"]+)"/.exec(generator)?.[1]
  return output === undefined ? undefined : posix.join('prisma', output)
}

/** A line of a template with the URL of the database, or the path of its file. */
export function placed(line: string, setup: Setup): string {
  return line.replace(PLACE, namesDatabase(setup) ? 'url' : placeOf(setup))
}

/** On MariaDB and MySQL, an ORM does not say in which database the tables are. */
export function namesDatabase({ database, template }: Setup): boolean {
  return database === 'mysql' && template.store.includes('(from')
}

/** The expression that makes the store; `name` is one for the name of the database. */
export function storeOf(setup: Setup, name: string): string {
  const { store } = setup.template
  return namesDatabase(setup) ? store.replace(/\)$/, `, { database: ${name} })`) : store
}

/** Where the database is. */
export function placeOf({ database, app }: Setup): string {
  return database === 'sqlite'
    ? `process.env['DATABASE_FILE'] ?? '${app}.db'`
    : `process.env['DATABASE_URL'] ?? '${database}://localhost/${app}'`
}

/** The URL of the database, as the command line takes it. */
export function urlOf(setup: Setup): string {
  const place = placeOf(setup)
  return setup.database === 'sqlite' ? `\`sqlite:\${${place}}\`` : place
}

/** Since TypeScript 6 the types of Node.js are there only if they are named. */
export function nodeTypes({ project: { language, compiler } }: Setup): string[][] {
  const missing = language === 'ts' && compiler !== undefined && !compiler.nodeTypes
  return missing ? [['/// <reference types="node" />']] : []
}

/** Import lines in the order of their modules. */
export function sorted(imports: readonly string[]): string[] {
  return imports.toSorted((a, b) => moduleOf(a).localeCompare(moduleOf(b), 'en'))
}

function moduleOf(line: string): string {
  return / from '(.*)'/.exec(line)?.[1] ?? line
}

/** The text of a file. */
export function paragraphs(parts: readonly (readonly string[])[]): string {
  return `${parts.map((lines) => lines.join('\n')).join('\n\n')}\n`
}
