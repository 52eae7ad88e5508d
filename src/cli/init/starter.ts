import { posix } from 'node:path'
import type { FileToWrite } from '../migrations/files.ts'
import type { BrokerTemplate } from './brokers.ts'
import { nestModule } from './nest.ts'
import {
  brokerOf,
  configName,
  connectsLate,
  hasWorker,
  importPath,
  injectedOf,
  isNest,
  mainFile,
  namesDatabase,
  nestFile,
  nodeTypes,
  paragraphs,
  placed,
  placeOf,
  prismaOutput,
  type Setup,
  sorted,
  sourceFolder,
  storeOf,
  urlOf,
} from './setup.ts'

/** The files of a project: the set-up, and the configuration for the command line. */
export function projectFiles(setup: Setup): FileToWrite[] {
  const config = configName(setup)
  const module = { path: nestFile(setup), text: nestModule(setup) }
  if (injectedOf(setup) !== undefined) return [module, { path: config, text: configOf(`store: ${urlOf(setup)}`) }]
  return [
    { path: mainFile(setup), text: hapaxFile(setup) },
    { path: config, text: configFile(setup) },
    ...(isNest(setup) && setup.example ? [module] : []),
  ]
}

function hapaxFile(setup: Setup): string {
  const { template, app, example } = setup
  const broker = brokerOf(setup)
  const imports = [
    `import { createHapax${example ? ', defineMessage' : ''} } from 'hapax'`,
    ...template.imports.map((each) => prismaImport(each, setup)),
    ...(broker === undefined ? [] : [broker.imports]),
  ]
  return paragraphs([
    ...nodeTypes(setup),
    sorted(imports),
    [
      ...(template.setup.length === 0
        ? []
        : ['// The connection that your application has: use it here instead, if there is one already.']),
      ...(namesDatabase(setup) ? [`const url = ${placeOf(setup)}`] : []),
      ...template.setup.map((line) => placed(line, setup)),
      ...connecting(setup),
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

/** Only an ES module can wait for its connection, and Nest imports files as either. */
function connecting(setup: Setup): string[] {
  const { connect } = setup.template
  if (connect === undefined) return []
  return connectsLate(setup)
    ? ['// To be awaited before the first message.', `export const connected = ${connect}`]
    : [`await ${connect}`]
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

function configFile(setup: Setup): string {
  const broker = brokerOf(setup) !== undefined
  const worker = hasWorker(setup) ? ['worker'] : []
  const late = connectsLate(setup)
  const names = [...(late ? ['connected'] : []), ...(broker ? ['destination'] : []), 'hapax', 'store', ...worker]
  const exported = ['store', ...(broker ? ['broker: destination'] : []), 'hapax', ...worker]
  return configOf(exported.join(', '), [
    `import { ${names.join(', ')} } from './${mainFile(setup)}'`,
    ...(late ? ['', 'await connected'] : []),
  ])
}

function configOf(exported: string, before: readonly string[] = []): string {
  const head = ['// What the commands of npx hapax work with.', ...before]
  const last = `export default { ${exported} }`
  return paragraphs(before.length === 0 ? [[...head, last]] : [head, [last]])
}

/** Prisma 7 generates the client into the project. */
function prismaImport(line: string, setup: Setup): string {
  const output = line.endsWith(`'@prisma/client'`) ? prismaOutput(setup.project) : undefined
  if (output === undefined) return line
  return line.replace(
    '@prisma/client',
    importPath(setup, posix.relative(sourceFolder(setup), posix.join(output, 'client')), 'ts'),
  )
}

function storeLine(setup: Setup): string {
  return `export const store = ${placed(storeOf(setup, 'new URL(url).pathname.slice(1)'), setup)}`
}
