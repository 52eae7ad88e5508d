import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import type { EndSignal, Io } from '../../src/cli/io/io.ts'
import { run } from '../../src/cli/program.ts'
import type { Destination } from '../../src/contracts/broker.ts'
import { createHapax, defineMessage, Permanent, silentLogger } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { answering } from '../../src/testing/promised.ts'

/** What a command line printed, and its exit code. */
export interface Ran {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** How the command line is run; without `confirm` there is no terminal. */
export interface Around {
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly confirm?: (question: string) => Promise<boolean>
  readonly ask?: (question: string) => Promise<string | undefined>
  readonly edit?: (text: string) => Promise<string>
  /** What is piped into the command. */
  readonly input?: AsyncIterable<string | Uint8Array>
  /** Called once with a function that asks the command to end. */
  readonly onStart?: (signal: (name: EndSignal) => void) => void
  /** Called with what is written to stdout, while the command runs. */
  readonly onOutput?: (text: string) => void
  /** Called with what is written to stderr, while the command runs. */
  readonly onError?: (text: string) => void
  readonly color?: boolean
  readonly columns?: number
}

/** Runs a command line in this process. */
export async function cli(argv: readonly string[], around: Around = {}): Promise<Ran> {
  const { cwd = tmpdir(), env = {}, confirm, ask, edit, color = false, columns } = around
  let [stdout, stderr] = ['', '']
  const terminal = { isTTY: columns !== undefined, columns }
  const io: Io = {
    out: {
      ...terminal,
      write: (text, done) => {
        stdout += text
        around.onOutput?.(text)
        done?.()
      },
    },
    err: {
      ...terminal,
      write: (text) => {
        stderr += text
        around.onError?.(text)
      },
    },
    env,
    cwd,
    color,
    confirm,
    ask,
    edit,
    input: around.input,
    onSignal: (listener) => {
      around.onStart?.(listener)
      return () => {}
    },
  }
  const exitCode = await run(argv, io)
  return { exitCode, stdout, stderr }
}

/** A directory that is removed when the test ends. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-cli-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** What a malicious sender would put into an id or a text: it clears the screen and forges a log line. */
const HOSTILE = '\u001b[2J\u009b31m\u202e\nhapax: all is well'

/** A prepared database that the tests of a file share: they read it, or change a copy. */
export function sharedDatabase(prepare: (path: string) => Promise<void> = prepareDatabase): {
  look(...argv: string[]): Promise<Ran>
  cwd(): string
  copy(): Required<Pick<Around, 'cwd' | 'env'>>
} {
  let directory = ''
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'hapax-cli-'))
    await prepare(join(directory, 'shop.db'))
    const database = new DatabaseSync(join(directory, 'shop.db'))
    database.exec('update hapax_failed set mark = 7; update hapax_sent set mark = 7')
    database.close()
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))
  return {
    look: (...argv) => cli([...argv, '--store', 'sqlite:shop.db'], { cwd: directory }),
    cwd: () => directory,
    copy: () => {
      const cwd = temporaryDirectory()
      copyFileSync(join(directory, 'shop.db'), join(cwd, 'shop.db'))
      return { cwd, env: { HAPAX_STORE: 'sqlite:shop.db' } }
    },
  }
}

/** A database with every kind of row: failed 1 to 3 (the third is hostile), one retrying, one done, one in the outbox. */
async function prepareDatabase(path: string): Promise<void> {
  const hapax = createHapax({ store: sqlite({ path }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  const OrderPlaced = defineMessage<{ outcome: string }>('order.placed')
  const billing = hapax.consumer('billing', { retry: { minDelayMs: 600_000 } })
  billing.on(OrderPlaced, async ({ outcome }) => {
    if (outcome === 'failed') throw new Permanent(`no such card`, { cause: new TypeError('bad digits') })
    if (outcome === 'hostile') throw new Permanent(HOSTILE)
    if (outcome === 'retrying') throw new Error('the tax service did not answer')
  })
  const message = { source: '/shop', type: 'order.placed' }
  for (const id of ['failed-1', 'failed-2']) {
    await billing.handle({ ...message, id, headers: { tenant: 'blue' }, data: { outcome: 'failed', id } })
  }
  await billing.handle({ ...message, id: `x${HOSTILE}`, data: { outcome: 'hostile', text: HOSTILE } })
  await billing.handle({ ...message, id: 'retrying-1', data: { outcome: 'retrying' } })
  await billing.handle({ ...message, id: 'done-1', data: { outcome: 'fine' } })
  await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { outcome: 'fine' }, { id: 'published-1' }))
  await hapax.close()
}

/**
 * A database where keys wait: shipping holds order-17 behind p-1 (p-0 is done, p-2 and p-3 wait), the relay partners holds it
 * behind bad-key (late waits), has sent good and good-2, and given up bad; open waits for the relay default.
 */
export async function prepareOrdered(path: string): Promise<void> {
  const hapax = createHapax({ store: sqlite({ path }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  const Packed = defineMessage<{ fine: boolean }>('parcel.packed', { key: () => 'order-17' })
  const Placed = defineMessage<{ n: number }>('order.placed')
  const shipping = hapax.consumer('shipping', { receive: 'store', order: 'wait' })
  shipping.on(Packed, async ({ fine }) => {
    if (!fine) throw new Permanent('no such street')
  })
  for (const [index, fine] of [true, false, true, true].entries()) {
    const message = { source: '/shop', type: 'parcel.packed', key: 'order-17', correlationId: 'cart-4' }
    await shipping.handle({ ...message, id: `p-${index}`, data: { fine, index } })
  }
  await hapax.transaction(async (tx) => {
    for (const id of ['good', 'good-2', 'bad']) await hapax.publish(tx, Placed, { n: 1 }, { id, relay: 'partners' })
    for (const id of ['bad-key', 'late']) await hapax.publish(tx, Packed, { fine: true }, { id, relay: 'partners' })
    await hapax.publish(tx, Placed, { n: 2 }, { id: 'open' })
  })
  const worker = hapax.worker({ consume: [shipping], relays: { partners: refusesBad }, keepSentMs: 3_600_000 })
  await worker.start()
  await worker.drain()
  await hapax.close()
}

const refusesBad: Destination = {
  name: 'hook of the partners',
  features: { keepsOrder: false },
  prepare: async () => {},
  publish: answering(({ id }) => {
    if (id.startsWith('bad')) return { status: 'refused', error: new Error('413 too large') }
    return { status: 'confirmed' }
  }),
  close: async () => {},
}
