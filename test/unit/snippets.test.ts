import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import config from '../../tsconfig.json' with { type: 'json' }
import { diagnosticsOf } from '../support/compiler.ts'
import { type Block, blocksOf, pages, root } from '../support/pages.ts'

/** What a snippet may use without declaring it: what the text around it speaks of. */
const CONTEXT = `
import type { Consumer, Hapax, LeasedContext, MessageType, Subscription } from 'hapax'
import type { kafka } from 'hapax/kafka'
import type { nats } from 'hapax/nats'
import type { PgClient, PgTx } from 'hapax/postgres'
import type { rabbitmq } from 'hapax/rabbitmq'
import type { redisStreams } from 'hapax/redis-streams'

declare global {
  const test: (name: string, run: () => Promise<void>) => void
  const hapax: Hapax<PgTx, PgClient>
  const billing: Consumer<PgTx>
  const audit: Consumer<PgTx>
  const queue: Subscription
  const OrderPlaced: MessageType<{ orderId: string; amount: number }>
  const InvoiceCreated: MessageType<{ orderId: string }>
  const SmsRequested: MessageType<{ id: string; to: string; recipients: string[] }>
  const rabbit: ReturnType<typeof rabbitmq>
  const js: ReturnType<typeof nats>
  const redis: ReturnType<typeof redisStreams>
  const cluster: ReturnType<typeof kafka>
  const handler: (request: Request) => Promise<Response>
  const ctx: LeasedContext<PgTx>
  const request: { recipients: readonly string[] }
  const SmsSent: MessageType<{ id: string }>
  const provider: { send(request: unknown, options: { idempotencyKey: string }): Promise<{ id: string }> }
}
`

/** Shows that mistakes are found, in the same run. */
const WRONG: Block = {
  page: 'wrong.md',
  line: 7,
  language: 'ts',
  code: "billing.on(OrderPlaced, (order) => order.orderID)\nhapax.consumer('a', { ordre: 'wait' })",
}

/** Mistakes in options, as people make them. */
const MISTAKES = join(root, 'test/types/mistakes/options.ts')

const snippets = [...pages().flatMap((page) => blocksOf(page)), WRONG].filter(({ language }) => language === 'ts')
/** A file's name, a line and what was said of it. */
let said: readonly (readonly [file: string, line: number, text: string])[] = []

/** One run of the compiler over all of them, each as a module, in a package that looks like this one. */
beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-snippets-'))
  try {
    copyFileSync(join(root, 'package.json'), join(folder, 'package.json'))
    for (const name of ['src', 'node_modules']) symlinkSync(join(root, name), join(folder, name))
    writeFileSync(join(folder, 'context.ts'), CONTEXT)
    for (const [index, { code }] of snippets.entries())
      writeFileSync(join(folder, `${index}.ts`), `${code}\nexport {}\n`)
    copyFileSync(MISTAKES, join(folder, 'mistakes.ts'))
    copyFileSync(join(root, 'test/support/better-sqlite3.d.ts'), join(folder, 'better-sqlite3.d.ts'))
    // Applications on NestJS are written with decorators and parameter properties.
    const compilerOptions = { ...config.compilerOptions, experimentalDecorators: true, erasableSyntaxOnly: false }
    const tsconfig = { compilerOptions, include: ['*.ts'] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig))
    said = (await diagnosticsOf(folder)).map((each) => {
      const [, file = '', line = '', text = ''] = /^(.*?)\((\d+),\d+\): error TS\d+: (.*)/s.exec(each) ?? ['', each]
      return [file, Number(line), text.trim()]
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('every TypeScript snippet of the documentation type-checks', () => {
  expect(snippets.length).toBeGreaterThan(30)
  const elsewhere = said.filter(([file]) => file !== 'mistakes.ts')
  const errors = elsewhere.map(([file, line, text]) => {
    const snippet = snippets[Number(/^(\d+)\.ts$/.exec(file)?.[1])]
    return snippet === undefined ? `${file}:${line}: ${text}` : `${snippet.page}:${snippet.line + line - 1}: ${text}`
  })
  expect(errors).toEqual([
    expect.stringMatching(/^wrong\.md:7: .*orderID/),
    expect.stringMatching(/^wrong\.md:8: .*ordre/),
  ])
})

test('the compiler names each mistake in options, at its own line, and says nothing of overloads', () => {
  const made = mistakes()
  expect(made.size).toBeGreaterThan(20)
  const named = said.filter(([file]) => file === 'mistakes.ts')
  expect(named.map(([, line]) => line)).toEqual([...made.keys()])
  for (const [, line, text] of named) expect(text).toMatch(made.get(line) ?? /^$/)
})

/** The mistakes, by line, and what has to be said of each. */
function mistakes(): ReadonlyMap<number, RegExp> {
  const lines = readFileSync(MISTAKES, 'utf8').split('\n')
  return new Map(
    lines.flatMap((text, index): [number, RegExp][] => {
      const [, kind, name] = /\S.*\/\/ (unknown|wrong): (\w+)$/.exec(text) ?? []
      if (kind === undefined) return []
      const unknown = new RegExp(
        `^Object literal may only specify known properties, (?:and|but) '${name}' does not exist`,
      )
      return [[index + 1, kind === 'unknown' ? unknown : new RegExp(`^Type '${name}' is not assignable to type`)]]
    }),
  )
}
