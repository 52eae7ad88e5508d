import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import type { EndSignal } from '../../src/cli/io/io.ts'
import { stdoutDestination } from '../../src/cli/io/stdout-destination.ts'
import { createHapax, defineMessage, type Hapax, HapaxError, silentLogger } from '../../src/index.ts'
import { memory } from '../../src/stores/memory/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { answering, promised } from '../../src/testing/promised.ts'
import { cli, temporaryDirectory } from '../support/cli.ts'

const main = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts')
const Placed = defineMessage<{ n: number }>('order.placed', { key: ({ n }) => `order-${n}` })

async function shop(path: string): Promise<Hapax<unknown>> {
  const hapax = createHapax({ store: sqlite({ path }), source: '/shop', logger: silentLogger }) as Hapax<unknown>
  onTestFinished(() => hapax.close())
  await hapax.migrate()
  return hapax
}

const place = (hapax: Hapax<unknown>, n: number): Promise<unknown> =>
  hapax.transaction((tx) => hapax.publish(tx, Placed, { n }, { id: `id-${n}`, headers: { 'X-Tenant': 'blue' } }))

interface Running {
  readonly child: ChildProcess
  readonly out: { stdout: string; stderr: string }
  readonly exit: Promise<unknown[]>
}

function start(cwd: string, ...argv: string[]): Running {
  const child = spawn(process.execPath, ['--conditions=hapax-source', main, 'relay', ...argv], { cwd })
  const out = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk) => {
      out[name] += chunk
    })
  }
  const exit = once(child, 'close')
  onTestFinished(() => void child.kill('SIGKILL'))
  return { child, out, exit }
}

const soon = { timeout: 40_000, interval: 50 }

it('runs as a process: sends what is published, keeps it, and stops on SIGTERM', async () => {
  const cwd = temporaryDirectory()
  const hapax = await shop(join(cwd, 'shop.db'))
  await place(hapax, 1)
  const relay = start(cwd, '--store', 'sqlite:shop.db', '--broker', 'stdout:', '--keep-sent', '7d', '--poll', '50ms')
  await vi.waitFor(() => expect(relay.out.stdout).toContain('id-1'), soon)
  await place(hapax, 2)
  await vi.waitFor(() => expect(relay.out.stdout).toContain('id-2'), soon)
  // Printed is not yet confirmed in the database.
  await vi.waitFor(async () => expect((await hapax.status()).relays[0]?.waiting).toBe(0), soon)
  expect((await hapax.status()).workers).toMatchObject([{ alive: true }])

  relay.child.kill('SIGTERM')
  expect(await relay.exit).toEqual([0, null])
  expect(relay.out.stderr).toMatch(
    /started: sqlite:shop.db -> stdout\n.*SIGTERM: stopping\n.*info {3}stopped; 2 messages sent\n$/,
  )
  expect((await hapax.status()).workers).toEqual([])
  expect(await hapax.sent.list()).toHaveLength(2)
  const [first] = relay.out.stdout.split('\n')
  expect(JSON.parse(first as string)).toEqual({
    specversion: '1.0',
    id: 'id-1',
    source: '/shop',
    type: 'order.placed',
    time: expect.any(String),
    datacontenttype: 'application/json',
    partitionkey: 'order-1',
    xtenant: 'blue',
    data: { n: 1 },
  })
})

it('fails where it can never work: no tables, another destination', async () => {
  const cwd = temporaryDirectory()
  const relay = ['relay', '--store', 'sqlite:shop.db', '--broker']
  expect(await cli([...relay, 'stdout:'], { cwd })).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('(not-found)'),
  })
  const hapax = await shop(join(cwd, 'shop.db'))
  await hapax.worker({ relay: stdoutDestination({ write: (_, done) => done?.() }) }).start()
  expect(await cli([...relay, 'memory:orders'], { cwd })).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/relay default to go to stdout.*hapax relays move default.*\(relay-moved\)/),
  })
})

/** What the configuration of the next test exports. */
const shared = globalThis as { hapaxTest?: unknown }
afterEach(() => {
  delete shared.hapaxTest
})

/** Runs a relay in this process, on these; `signal` asks it to end. */
function inProcess(store: unknown, broker: unknown) {
  const cwd = temporaryDirectory()
  writeFileSync(join(cwd, 'hapax.config.mjs'), 'export default globalThis.hapaxTest')
  shared.hapaxTest = { store, broker }
  let signal: (name: EndSignal) => void = () => {}
  const stderr: string[] = []
  const ran = cli(['relay', '--poll', '20ms', '--deadline', '1h'], {
    cwd,
    onStart: (given) => {
      signal = given
    },
    onError: (text) => stderr.push(text),
  })
  return { ran, log: () => stderr.join(''), signal: (name: EndSignal) => signal(name) }
}

it('ends at once on a second signal, although the broker does not answer', async () => {
  const store = memory()
  const hapax = createHapax({ store, source: '/shop', logger: silentLogger }) as Hapax<unknown>
  await place(hapax, 1)
  let asked = false
  const silent = {
    name: 'silent',
    features: { keepsOrder: true },
    publish: () => {
      asked = true
    },
    close: async () => {},
  }
  const relay = inProcess(store, silent)
  await vi.waitFor(() => expect(asked).toBe(true), soon)
  relay.signal('SIGTERM')
  relay.signal('SIGINT')
  expect(await relay.ran).toMatchObject({ exitCode: 130, stderr: expect.stringContaining('SIGINT again') })
  expect((await hapax.status()).relays[0]?.waiting).toBe(1)
})

it('waits for a database that is not there yet, and for a broker that goes away and comes back', async () => {
  const store = memory()
  const hapax = createHapax({ store, source: '/shop', logger: silentLogger }) as Hapax<unknown>
  const ready = vi.spyOn(store.schema, 'ready').mockRejectedValue(new HapaxError('store-unavailable', 'no route'))
  let away = false
  const sent: string[] = []
  const broker = {
    name: 'fickle',
    features: { keepsOrder: true },
    publish: answering(({ id }) => {
      if (away) return { status: 'unavailable', error: new Error('connection refused') }
      sent.push(id)
      return { status: 'confirmed' }
    }),
    close: async () => {},
  }
  const relay = inProcess(store, broker)
  await vi.waitFor(() => expect(relay.log()).toContain('is not available, retrying: no route'), soon)
  await vi.waitFor(() => expect(ready.mock.calls.length).toBeGreaterThan(2), soon)
  ready.mockRestore()
  await vi.waitFor(() => expect(relay.log()).toContain('is back'), soon)
  away = true
  await place(hapax, 1)
  await vi.waitFor(() => expect(relay.log()).toContain('fickle is not available, retrying: connection refused'), soon)
  away = false
  await vi.waitFor(() => expect(relay.log()).toContain('the broker is back'), soon)
  expect(sent).toEqual(['id-1'])
  relay.signal('SIGINT')
  const { exitCode, stderr } = await relay.ran
  expect(exitCode).toBe(0)
  expect(stderr.match(/not available/g)).toHaveLength(2)
})

it('prints every digit of a number', () => {
  const lines: string[] = []
  const destination = stdoutDestination({ write: (text) => lines.push(text) })
  const data = '{"id":12345678901234567890,"far":1e400,"near":0.12345678901234567891,"n":1.5}'
  promised(destination, [{ id: '1', source: '/s', type: 't', data: Buffer.from(data) }])
  expect(lines.join('')).toContain(`"data":${data}}`)
})

it('confirms nothing that has not left the process', async () => {
  const written: ((error?: Error) => void)[] = []
  const destination = stdoutDestination({ write: (_, done) => written.push(done as () => void) })
  const message = { id: '1', source: '/s', type: 't', data: Buffer.from('1') }
  const deadline = new AbortController()
  const confirmations = promised(destination, [message, message, message], deadline.signal)
  written[0]?.()
  written[1]?.(new Error('EPIPE'))
  expect(await confirmations[0]).toEqual({ status: 'confirmed' })
  expect(await confirmations[1]).toMatchObject({ status: 'unavailable' })
  deadline.abort()
  expect(await confirmations[2]).toMatchObject({ status: 'unavailable' })
})

it('prints text and bytes as CloudEvents do', () => {
  const lines: string[] = []
  const message = { id: '1', source: '/s', type: 't' }
  const destination = stdoutDestination({ write: (text) => lines.push(text) })
  promised(destination, [
    { ...message, datacontenttype: 'text/plain', data: Buffer.from('12') },
    { ...message, datacontenttype: 'image/png', data: Buffer.from([0xff, 0xd8]) },
    { ...message, data: new Uint8Array() },
  ])
  const [text, bytes, none] = lines.map((each) => JSON.parse(each))
  expect(text.data).toBe('12')
  expect(bytes).toMatchObject({ data_base64: '/9g=' })
  expect(none).not.toHaveProperty('data')
})
