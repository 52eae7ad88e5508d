import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import type { FileToWrite } from '../migrations/files.ts'
import type { Project } from '../project.ts'
import { PLACE, type StoreTemplate } from './accesses.ts'
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

/** The files of a project: the set-up, and the configuration for the command line. */
export function projectFiles(setup: Setup): FileToWrite[] {
  const { framework, example } = setup
  const folder = sourceFolder(setup)
  const extension = extensionOf(setup.project)
  const files = [
    { path: posix.join(folder, `hapax.${extension}`), text: hapaxFile(setup, folder) },
    { path: `hapax.config.${extension}`, text: configFile(setup, folder) },
  ]
  if (!example || !isNest(setup)) return files
  return [...files, { path: posix.join(folder, 'hapax.module.ts'), text: nestModule(setup, framework) }]
}

/** Where source files are. */
export function sourceFolder({ project, framework }: Pick<Setup, 'project' | 'framework'>): string {
  if (existsSync(join(project.directory, 'src'))) return 'src'
  if (framework === 'next') return 'lib'
  return project.language === 'ts' ? 'src' : '.'
}

/** A name that makes Node.js and the compiler read a file as an ES module, because hapax is one. */
export function extensionOf({ language, modules }: Project): string {
  if (language === 'ts') return modules === 'esm' ? 'ts' : 'mts'
  return modules === 'esm' ? 'js' : 'mjs'
}

/** Nest finds its handlers by decorators, which only TypeScript has. */
export function isNest({ framework, project }: Pick<Setup, 'framework' | 'project'>): boolean {
  return framework === 'nestjs' && project.language === 'ts'
}

/** Whether the worker is made in the set-up: with Nest, its module makes it. */
export function hasWorker(setup: Setup): boolean {
  return !isNest(setup) && (setup.example || brokerOf(setup) !== undefined)
}

function brokerOf({ broker }: Setup): BrokerTemplate | undefined {
  return broker === 'none' ? undefined : BROKERS[broker]
}

function hapaxFile(setup: Setup, folder: string): string {
  const { template, app, example } = setup
  const broker = brokerOf(setup)
  const imports = [
    `import { createHapax${example ? ', defineMessage' : ''} } from 'hapax'`,
    ...template.imports.map((each) => prismaImport(each, setup, folder)),
    ...(broker === undefined ? [] : [broker.imports]),
  ]
  return paragraphs([
    imports.toSorted((a, b) => moduleOf(a).localeCompare(moduleOf(b), 'en')),
    [
      ...(template.setup.length === 0
        ? []
        : ['// The connection that your application has: use it here instead, if there is one already.']),
      ...(namesDatabase(setup) ? [`const url = ${placeOf(setup)}`] : []),
      ...template.setup.map((line) => placed(line, setup)),
      storeLine(setup),
      ...(broker?.setup(app) ?? []),
      ...(broker === undefined
        ? []
        : ['// Published messages go here.', `export const destination = ${broker.destination(app)}`]),
    ],
    [createLine(setup, broker)],
    ...(example ? exampleParts(setup, broker) : []),
    ...(hasWorker(setup)
      ? [['// Not started: npx hapax work runs it, or your program calls worker.start().', workerLine(setup, broker)]]
      : []),
  ])
}

/** Without a broker, messages go straight to the consumers of this database. */
function createLine({ app }: Setup, broker: BrokerTemplate | undefined): string {
  return `export const hapax = createHapax({ store, source: '/${app}'${broker === undefined ? `, delivery: 'local'` : ''} })`
}

function exampleParts(setup: Setup, broker: BrokerTemplate | undefined): string[][] {
  const ts = setup.project.language === 'ts'
  const type = ts ? '<{ orderId: string; amount: number }>' : ''
  const source = broker === undefined ? [] : [`export const orders = ${broker.source(setup.app, 'billing')}`]
  const consumer = [
    '// ctx.tx, the second argument of a handler, is its transaction: what it writes commits together with the receipt, or not at all.',
    `export const billing = hapax.consumer('billing')`,
    'billing.on(OrderPlaced, async (order) => {',
    `  console.log('billed', order.orderId)`,
    '})',
  ]
  return [
    [`export const OrderPlaced = defineMessage${type}('order.placed')`, ...source],
    ...(isNest(setup) ? [] : [consumer]),
    [
      '// The message commits with what you write through tx, or not at all.',
      ts
        ? 'export async function placeOrder(orderId: string, amount: number): Promise<void> {'
        : 'export async function placeOrder(orderId, amount) {',
      '  await hapax.transaction(async (tx) => {',
      '    await hapax.publish(tx, OrderPlaced, { orderId, amount })',
      '  })',
      '}',
    ],
  ]
}

function workerLine({ example }: Setup, broker: BrokerTemplate | undefined): string {
  const relay = broker === undefined ? [] : ['relay: destination']
  const consume = example ? [`consume: [${broker === undefined ? 'billing' : 'billing.from(orders)'}]`] : []
  return `export const worker = hapax.worker({ ${[...relay, ...consume].join(', ')} })`
}

function configFile(setup: Setup, folder: string): string {
  const file = `./${posix.join(folder, `hapax.${extensionOf(setup.project)}`)}`
  const broker = brokerOf(setup) !== undefined
  const names = [...(broker ? ['destination'] : []), 'hapax', 'store', ...(hasWorker(setup) ? ['worker'] : [])]
  const exported = [
    'store',
    ...(broker ? ['broker: destination'] : []),
    'hapax',
    ...(hasWorker(setup) ? ['worker'] : []),
  ]
  return paragraphs([
    [
      '// What the commands of npx hapax work with.',
      ...(needsIgnore(setup.project)
        ? ['// @ts-ignore: Node.js runs this file as it is, and needs the name of the file that it imports']
        : []),
      `import { ${names.join(', ')} } from '${file}'`,
    ],
    [`export default { ${exported.join(', ')} }`],
  ])
}

/** The compiler refuses an import of a `.ts` file unless it is allowed. */
function needsIgnore({ directory, language }: Project): boolean {
  if (language !== 'ts') return false
  const file = join(directory, 'tsconfig.json')
  const allowed = /"(allowImportingTsExtensions|rewriteRelativeImportExtensions)"\s*:\s*true/
  return !existsSync(file) || !allowed.test(readFileSync(file, 'utf8'))
}

function nestModule(setup: Setup, framework: string): string {
  const broker = brokerOf(setup)
  const names = ['hapax', 'OrderPlaced', ...(broker === undefined ? [] : ['destination', 'orders'])]
  const options =
    broker === undefined ? 'hapax' : 'hapax, worker: { relay: destination }, consumers: { billing: { from: orders } }'
  const file = extensionOf(setup.project) === 'mts' ? './hapax.mjs' : './hapax.js'
  return paragraphs([
    [
      `import { Injectable, Module } from '@nestjs/common'`,
      `import { HapaxModule, OnMessage } from 'hapax/${framework}'`,
      `import { ${names.toSorted((a, b) => a.localeCompare(b, 'en')).join(', ')} } from '${file}'`,
    ],
    [
      '@Injectable()',
      'export class Billing {',
      `  @OnMessage(OrderPlaced, { consumer: 'billing' })`,
      '  async onOrderPlaced(order: { orderId: string; amount: number }): Promise<void> {',
      `    console.log('billed', order.orderId)`,
      '  }',
      '}',
    ],
    [
      '// Import it in your application module. It runs the worker as long as the application.',
      '@Module({',
      `  imports: [HapaxModule.forRoot({ ${options} })],`,
      '  providers: [Billing],',
      '})',
      'export class MessagesModule {}',
    ],
  ])
}

/** Prisma 7 generates the client into the project. */
function prismaImport(line: string, { project }: Setup, folder: string): string {
  const file = join(project.directory, 'prisma', 'schema.prisma')
  if (!line.endsWith(`'@prisma/client'`) || !existsSync(file)) return line
  const [generator = ''] =
    /generator\s+\w+\s*\{[^}]*provider\s*=\s*"prisma-client"[^}]*\}/.exec(readFileSync(file, 'utf8')) ?? []
  const output = /output\s*=\s*"([^"]+)"/.exec(generator)?.[1]
  if (output === undefined) return line
  const path = posix.relative(folder, posix.join('prisma', output, 'client.ts'))
  return line.replace('@prisma/client', path.startsWith('.') ? path : `./${path}`)
}

function placed(line: string, setup: Setup): string {
  return line.replace(PLACE, namesDatabase(setup) ? 'url' : placeOf(setup))
}

/** On MariaDB and MySQL, an ORM does not say in which database the tables are. */
function namesDatabase({ database, template }: Setup): boolean {
  return database === 'mysql' && template.store.includes('(from')
}

function storeLine(setup: Setup): string {
  const { store } = setup.template
  const named = namesDatabase(setup) ? store.replace(/\)$/, ', { database: new URL(url).pathname.slice(1) })') : store
  return `export const store = ${placed(named, setup)}`
}

function placeOf({ database, app }: Setup): string {
  return database === 'sqlite'
    ? `process.env['DATABASE_FILE'] ?? '${app}.db'`
    : `process.env['DATABASE_URL'] ?? '${database}://localhost/${app}'`
}

function moduleOf(line: string): string {
  return / from '(.*)'/.exec(line)?.[1] ?? line
}

function paragraphs(parts: readonly (readonly string[])[]): string {
  return `${parts.map((lines) => lines.join('\n')).join('\n\n')}\n`
}
