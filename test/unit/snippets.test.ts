import { execFile } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import config from '../../tsconfig.json' with { type: 'json' }
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

test('every TypeScript snippet of the documentation type-checks', { timeout: 240_000 }, async () => {
  const snippets = pages()
    .flatMap((page) => blocksOf(page))
    .filter(({ language }) => language === 'ts')
  expect(snippets.length).toBeGreaterThan(30)
  expect(await typeErrors([...snippets, WRONG])).toEqual([
    expect.stringMatching(/^wrong\.md:7: .*orderID/),
    expect.stringMatching(/^wrong\.md:8: .*ordre/),
  ])
})

/** One run of the compiler over all of them, each as a module, in a package that looks like this one. */
async function typeErrors(snippets: readonly Block[]): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-snippets-'))
  try {
    copyFileSync(join(root, 'package.json'), join(folder, 'package.json'))
    for (const name of ['src', 'node_modules']) symlinkSync(join(root, name), join(folder, name))
    writeFileSync(join(folder, 'context.ts'), CONTEXT)
    for (const [index, { code }] of snippets.entries())
      writeFileSync(join(folder, `${index}.ts`), `${code}\nexport {}\n`)
    const tsconfig = { compilerOptions: config.compilerOptions, include: ['*.ts'] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig))
    const output = await tsc(folder)
    return output.split('\n').flatMap((line) => located(line, snippets))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function tsc(cwd: string): Promise<string> {
  const program = join(root, 'node_modules', '.bin', 'tsc')
  try {
    return (await promisify(execFile)(program, ['--checkers', '1', '--pretty', 'false'], { cwd })).stdout
  } catch (error) {
    const { stdout } = error as { stdout?: string }
    if (!stdout) throw error
    return stdout
  }
}

function located(line: string, snippets: readonly Block[]): string[] {
  const match = /^(\d+)\.ts\((\d+),\d+\): (.*)$/.exec(line)
  if (match === null) return line.startsWith(' ') || line === '' ? [] : [line]
  const snippet = snippets[Number(match[1])]
  return snippet === undefined ? [line] : [`${snippet.page}:${snippet.line + Number(match[2]) - 1}: ${match[3]}`]
}
