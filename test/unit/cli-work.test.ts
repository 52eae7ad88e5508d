import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { memoryBroker } from '../../src/brokers/memory/index.ts'
import type { EndSignal } from '../../src/cli/io/io.ts'
import { createHapax, defineMessage, HapaxError, silentLogger } from '../../src/index.ts'
import { memory } from '../../src/stores/memory/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { cli, temporaryDirectory } from '../support/cli.ts'

const root = join(import.meta.dirname, '..', '..')
const Placed = defineMessage<{ orderId: string }>('order.placed')
const soon = { timeout: 40_000, interval: 50 }

interface Running {
  readonly child: ChildProcess
  readonly out: { stdout: string; stderr: string }
  readonly exit: Promise<unknown[]>
}

function start(cwd: string, ...argv: string[]): Running {
  const main = join(root, 'src', 'cli', 'main.ts')
  const child = spawn(process.execPath, ['--conditions=hapax-source', main, 'work', ...argv], { cwd })
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

it('runs the worker of a configuration in TypeScript as a process, and stops on SIGTERM', async () => {
  const cwd = temporaryDirectory()
  const hapax = createHapax({ store: sqlite({ path: join(cwd, 'shop.db') }), source: '/shop', delivery: 'local' })
  onTestFinished(() => hapax.close())
  await hapax.migrate()
  const worker = start(cwd, '--config', join(root, 'examples', 'hapax.config.ts'))
  await vi.waitFor(() => expect(worker.out.stderr).toContain('worker started'), soon)
  expect(worker.out.stderr).toMatch(/^\S+ \S+ +info +worker starting: consumes billing\n/)
  await hapax.transaction((tx) => hapax.publish(tx, Placed, { orderId: 'A1' }))
  await vi.waitFor(() => expect(worker.out.stdout).toBe('billed A1\n'), soon)

  worker.child.kill('SIGTERM')
  expect(await worker.exit).toEqual([0, null])
  expect(worker.out.stderr).toMatch(/SIGTERM: stopping\n.*info {3}stopped\n$/)
  expect((await hapax.status()).workers).toEqual([])
})

/** What the configuration of the next test exports. */
const shared = globalThis as { hapaxTest?: unknown }
afterEach(() => {
  delete shared.hapaxTest
})

/** Runs `hapax work` in this process on what a configuration exports; `signal` asks it to end. */
function inProcess(exported: unknown, ...argv: string[]) {
  const cwd = temporaryDirectory()
  writeFileSync(join(cwd, 'hapax.config.mjs'), 'export default globalThis.hapaxTest')
  shared.hapaxTest = exported
  let signal: (name: EndSignal) => void = () => {}
  const stderr: string[] = []
  const ran = cli(['work', ...argv], {
    cwd,
    onStart: (given) => {
      signal = given
    },
    onError: (text) => stderr.push(text),
  })
  return { ran, log: () => stderr.join(''), signal: (name: EndSignal) => signal(name) }
}

function shop() {
  const store = memory()
  const hapax = createHapax({ store, source: '/shop', delivery: 'local', logger: silentLogger })
  return { store, hapax, billing: hapax.consumer('billing') }
}

it('ends at once on a second signal, although a handler goes on', async () => {
  const { hapax, billing } = shop()
  const running = Promise.withResolvers<void>()
  billing.on(Placed, () => {
    running.resolve()
    return new Promise(() => {})
  })
  const broker = memoryBroker()
  const worker = hapax.worker({ consume: [billing], relay: broker.topic('shop') })
  const work = inProcess({ hapax, worker }, '--deadline', '1h', '--json')
  await vi.waitFor(() => expect(work.log()).toContain('worker started'), soon)
  expect(JSON.parse(work.log().split('\n')[0] ?? '')).toMatchObject({
    level: 'info',
    msg: expect.stringMatching(/^worker starting: consumes billing; relays default -> .*shop/),
  })
  await hapax.transaction((tx) => hapax.publish(tx, Placed, { orderId: 'A1' }))
  await running.promise
  work.signal('SIGINT')
  work.signal('SIGINT')
  expect(await work.ran).toMatchObject({ exitCode: 130, stderr: expect.stringContaining('SIGINT again') })
})

it('aborts a handler that does not end before the deadline', async () => {
  const { hapax, billing } = shop()
  const running = Promise.withResolvers<void>()
  billing.on(Placed, (_, { signal }) => {
    running.resolve()
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  const work = inProcess({ hapax, worker: hapax.worker({ consume: [billing] }) }, '--deadline', '50ms')
  await vi.waitFor(() => expect(work.log()).toContain('worker started'), soon)
  await hapax.transaction((tx) => hapax.publish(tx, Placed, { orderId: 'A1' }))
  await running.promise
  work.signal('SIGTERM')
  expect(await work.ran).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(/stopped\n$/) })
})

it('waits for a database that is not there yet, and stops while it waits', async () => {
  const { store, hapax, billing } = shop()
  billing.on(Placed, () => {})
  const ready = vi.spyOn(store.schema, 'ready').mockRejectedValue(new HapaxError('store-unavailable', 'no route'))
  const worker = hapax.worker({ consume: [billing] })
  const work = inProcess({ hapax, worker })
  await vi.waitFor(() => expect(work.log()).toContain('the store is not available, retrying: no route'), soon)
  ready.mockRestore()
  await vi.waitFor(() => expect(work.log()).toMatch(/the store is back\n.*worker started/), soon)
  work.signal('SIGTERM')
  expect(await work.ran).toMatchObject({ exitCode: 0 })

  const other = shop()
  other.billing.on(Placed, () => {})
  vi.spyOn(other.store.schema, 'ready').mockRejectedValue(new HapaxError('store-unavailable', 'no route'))
  const waiting = inProcess({ hapax: other.hapax, worker: other.hapax.worker({ consume: [other.billing] }) })
  await vi.waitFor(() => expect(waiting.log()).toContain('retrying'), soon)
  waiting.signal('SIGINT')
  expect(await waiting.ran).toMatchObject({ exitCode: 0 })
})

it('ends at once on a second signal, although the database does not answer its start', async () => {
  const { store, hapax, billing } = shop()
  billing.on(Placed, () => {})
  const asked = vi.spyOn(store.schema, 'ready').mockReturnValue(new Promise(() => {}))
  const work = inProcess({ hapax, worker: hapax.worker({ consume: [billing] }) }, '--deadline', '1h')
  await vi.waitFor(() => expect(asked).toHaveBeenCalled(), soon)
  work.signal('SIGTERM')
  work.signal('SIGTERM')
  expect(await work.ran).toMatchObject({ exitCode: 143, stderr: expect.stringContaining('SIGTERM again') })
})

it('says in one sentence what is wrong with a configuration', async () => {
  const cwd = temporaryDirectory()
  const said = async (...argv: string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await cli(['work', ...argv], { cwd })
    expect({ exitCode: exitCode > 0, stdout }).toEqual({ exitCode: true, stdout: '' })
    return stderr.split('\n')[0] ?? ''
  }
  expect(await said()).toBe(
    'hapax: there is no hapax.config.ts (.mts, .js, .mjs) in this directory, and --config names none (usage)',
  )
  expect(await said('--config', 'none.ts')).toBe('hapax: there is no configuration file none.ts (usage)')
  const files = {
    'throws.mjs': "throw new Error('no DATABASE_URL')",
    'empty.mjs': 'export const worker = 1',
    'store.mjs': 'export default { store: 1 }',
    'options.mjs': 'export default { worker: { consume: [] } }',
    'no-hapax.mjs': 'export default { worker: { start() {}, stop() {}, drain() {}, serving: {} } }',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text)
  expect(await said('--config', 'throws.mjs')).toBe('hapax: throws.mjs could not be loaded: no DATABASE_URL (config)')
  const expected = (name: string): string => `hapax: expected the default export of ${name} to have`
  const worker = 'a worker, made by hapax.worker(…), got'
  expect(await said('--config', 'empty.mjs')).toBe(`${expected('empty.mjs')} ${worker} none (config)`)
  expect(await said('--config', 'store.mjs')).toBe(`${expected('store.mjs')} ${worker} none (config)`)
  expect(await said('--config', 'options.mjs')).toBe(`${expected('options.mjs')} ${worker} something else (config)`)
  expect(await said('--config', 'no-hapax.mjs')).toBe(
    `${expected('no-hapax.mjs')} the hapax that the worker belongs to, got none (config)`,
  )
})

it('finds the database of every command by --config, before the environment', async () => {
  const cwd = temporaryDirectory()
  writeFileSync(join(cwd, 'shop.config.ts'), `export default { store: 'sqlite:shop.db' }`)
  const around = { cwd, env: { HAPAX_STORE: 'sqlite:other.db' } }
  expect(await cli(['migrate', '--config', 'shop.config.ts'], around)).toMatchObject({ exitCode: 0 })
  expect(await cli(['status', '--config', 'shop.config.ts'], around)).toMatchObject({ exitCode: 0 })
  expect(await cli(['status'], around)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('other.db') })
})

it('works what is due and ends with --once', async () => {
  const { hapax, billing } = shop()
  const handled: string[] = []
  billing.on(Placed, ({ orderId }) => {
    handled.push(orderId)
  })
  await hapax.transaction((tx) => hapax.publish(tx, Placed, { orderId: 'A1' }))
  const { ran, log } = inProcess({ hapax, worker: hapax.worker({ consume: [billing] }) }, '--once', '--max', '1m')
  expect((await ran).exitCode).toBe(0)
  expect(handled).toEqual(['A1'])
  expect(log()).toMatch(/stopped: nothing is due\n$/)
})

it('ends with --once when the time is over, or at a signal', async () => {
  for (const end of ['time', 'signal'] as const) {
    const { hapax, billing } = shop()
    const entered = Promise.withResolvers<void>()
    billing.on(Placed, (_, ctx) => {
      entered.resolve()
      return new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)))
    })
    await hapax.transaction((tx) => hapax.publish(tx, Placed, { orderId: 'A1' }))
    const worker = hapax.worker({ consume: [billing] })
    // Long enough for a busy machine to have entered the handler.
    const max = end === 'time' ? '12s' : '10m'
    const { ran, log, signal } = inProcess({ hapax, worker }, '--once', '--max', max, '--deadline', '0s')
    await entered.promise
    if (end === 'signal') signal('SIGTERM')
    expect((await ran).exitCode).toBe(0)
    expect(log()).toMatch(/stopped before nothing was due\n$/)
  }
})

it('names the configuration file in its help as one of several, because init writes hapax.config.mjs', async () => {
  const { stdout } = await cli(['work', '--help'])
  expect(stdout).toContain('the worker that the configuration file exports')
  expect(stdout.replaceAll(/\s+/g, ' ')).toContain('default: hapax.config.ts, .mts, .js or .mjs')
})
