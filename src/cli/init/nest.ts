// The module of an application of Nest. It does not wait while it is imported: a CommonJS file cannot, and neither can one that imports it.

import type { Injected } from './accesses.ts'
import {
  brokerOf,
  connectsLate,
  extensionOf,
  importPath,
  injectedOf,
  nodeTypes,
  paragraphs,
  type Setup,
  sorted,
  storeOf,
} from './setup.ts'

/** The file with the handlers and the module; with an injected connection also with all that `hapax.ts` has elsewhere. */
export function nestModule(setup: Setup): string {
  const injected = injectedOf(setup)
  return injected === undefined ? besideHapax(setup) : withConnection(setup, injected)
}

function besideHapax(setup: Setup): string {
  const late = connectsLate(setup)
  const broker = brokerOf(setup) === undefined ? [] : (['destination', 'orders'] as const)
  const names = ['hapax', 'OrderPlaced', ...broker, ...(late ? ['connected'] : [])]
  const options = ['hapax', ...working(setup, ...broker)].join(', ')
  const file = importPath(setup, './hapax', extensionOf(setup.project))
  return paragraphs([
    [
      nestImport('Injectable', 'Module'),
      hapaxImport('HapaxModule', 'OnMessage'),
      `import { ${names.toSorted((a, b) => a.localeCompare(b, 'en')).join(', ')} } from '${file}'`,
    ],
    billing,
    moduleLines(
      late
        ? [
            'HapaxModule.forRootAsync({',
            '  useFactory: async () => {',
            '    await connected',
            `    return { ${options} }`,
            '  },',
            '}),',
          ]
        : [`HapaxModule.forRoot({ ${options} }),`],
      ['Billing'],
    ),
  ])
}

function withConnection(setup: Setup, injected: Injected): string {
  const { example, app } = setup
  const { type, variable } = injected
  const broker = brokerOf(setup)
  const options = [
    `store: ${storeOf(setup, injected.database)}`,
    `source: '/${app}'`,
    ...(broker === undefined ? [`delivery: 'local'`] : []),
    ...working(setup, broker?.destination(app), broker?.source(app, 'billing')),
  ]
  const constants = [...(broker?.setup(app) ?? []), ...(example ? [ORDER_PLACED] : [])]
  return paragraphs([
    ...(broker === undefined ? [] : nodeTypes(setup)),
    sorted(importsOf(setup, injected)),
    ...(constants.length === 0 ? [] : [constants]),
    ...(example ? [billing, publisher(injected.transaction)] : []),
    moduleLines(
      [
        'HapaxModule.forRootAsync({',
        `  inject: [${type}],`,
        `  useFactory: (${variable}: ${type}) => ({`,
        ...options.map((each) => `    ${each},`),
        '  }),',
        '}),',
      ],
      example ? ['Billing', 'Orders'] : [],
    ),
  ])
}

function importsOf(setup: Setup, { from, type, transaction }: Injected): string[] {
  const { template, example } = setup
  const broker = brokerOf(setup)
  return [
    ...template.imports.filter((line) => !line.endsWith(`from '${from}'`)),
    ...(broker === undefined ? [] : [broker.imports]),
    ...(example
      ? [
          nestImport('Injectable', 'Module'),
          `import { defineMessage, type Hapax } from 'hapax'`,
          hapaxImport('HapaxModule', 'InjectHapax', 'OnMessage'),
          `import { ${type}, type ${transaction} } from '${from}'`,
        ]
      : [nestImport('Module'), hapaxImport('HapaxModule'), `import { ${type} } from '${from}'`]),
  ]
}

/** What the worker sends and reads, through a broker. */
function working({ example }: Setup, destination?: string, source?: string): string[] {
  const relay = destination === undefined ? [] : [`worker: { relay: ${destination} }`]
  return example && source !== undefined && relay.length > 0
    ? [...relay, `consumers: { billing: { from: ${source} } }`]
    : relay
}

function nestImport(...names: string[]): string {
  return `import { ${names.join(', ')} } from '@nestjs/common'`
}

function hapaxImport(...names: string[]): string {
  return `import { ${names.join(', ')} } from 'hapax/nestjs'`
}

const ORDER_PLACED = `export const OrderPlaced = defineMessage<{ orderId: string; amount: number }>('order.placed')`

const billing = [
  '// ctx.tx, the second argument of a handler, is its transaction: what it writes commits together with the receipt, or not at all.',
  '@Injectable()',
  'export class Billing {',
  `  @OnMessage(OrderPlaced, { consumer: 'billing' })`,
  '  async onOrderPlaced(order: { orderId: string; amount: number }): Promise<void> {',
  `    console.log('billed', order.orderId)`,
  '  }',
  '}',
]

function publisher(transaction: string): string[] {
  return [
    '@Injectable()',
    'export class Orders {',
    `  constructor(@InjectHapax() private readonly hapax: Hapax<${transaction}>) {}`,
    '',
    '  // The message commits with what you write through tx, or not at all.',
    '  async place(orderId: string, amount: number): Promise<void> {',
    '    await this.hapax.transaction(async (tx) => {',
    '      await this.hapax.publish(tx, OrderPlaced, { orderId, amount })',
    '    })',
    '  }',
    '}',
  ]
}

function moduleLines(imports: readonly string[], providers: readonly string[]): string[] {
  return [
    '// Import it in your application module. It runs the worker as long as the application.',
    '@Module({',
    '  imports: [',
    ...imports.map((line) => `    ${line}`),
    '  ],',
    ...(providers.length === 0 ? [] : [`  providers: [${providers.join(', ')}],`]),
    ...(providers.includes('Orders') ? ['  exports: [Orders],'] : []),
    '})',
    'export class MessagesModule {}',
  ]
}
