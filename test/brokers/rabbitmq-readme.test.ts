import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../support/cli.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'
import { requireServer } from '../support/servers.ts'

const root = join(import.meta.dirname, '..', '..')

/** The lines of the README, on a server, an exchange and a queue of the test's own. */
function shown(place: RabbitmqPlace): string {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const lines = /## Workers and brokers\n\n```ts\n([\s\S]*?)```/.exec(readme)?.[1] ?? ''
  expect(lines).toContain('SIGTERM')
  return lines
    .replace('amqp://localhost', requireServer('rabbitmq'))
    .replaceAll(`'shop'`, `'${place.exchange}'`)
    .replace(`queue('billing'`, `queue('${place.queue('billing')}'`)
}

/** What they stand on. Its handler never returns, unless it is told to stop. */
const before = (path: string): string => `
import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'
const hapax = createHapax({ store: sqlite({ path: ${JSON.stringify(path)} }), source: '/shop' })
await hapax.migrate()
const OrderPlaced = defineMessage('order.placed')
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, { signal }) => {
  console.log('handling')
  if (order.slow) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
})
const audit = hapax.consumer('audit').on(OrderPlaced, () => {})
process.on('message', (order) => hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, order)))
setTimeout(() => process.channel.unref())
console.log('begun')
`

/** The process, and everything that it has printed. */
function start(place: RabbitmqPlace): { child: ChildProcess; said: () => string } {
  const started = `console.log('started')\n\nawait once(process`
  const code = before(join(temporaryDirectory(), 'shop.db')) + shown(place).replace('await once(process', started)
  const args = ['--conditions=hapax-source', '--no-warnings', '--input-type=module', '--eval', code]
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      text += chunk
    })
  }
  return { child, said: () => text }
}

const until = (said: () => string, word: string): Promise<unknown> => expect.poll(said).toContain(word)

it('the process of the README ends by itself after SIGTERM, with 0', async () => {
  await using place = await RabbitmqPlace.open()
  const { child, said } = start(place)
  await until(said, 'started')
  child.send({ slow: false })
  await until(said, 'handling')
  child.kill('SIGTERM')
  expect(await once(child, 'exit'), said()).toEqual([0, null])
})

it('a second SIGTERM ends it at once, while a handler is waited for', async () => {
  await using place = await RabbitmqPlace.open()
  const { child, said } = start(place)
  await until(said, 'started')
  child.send({ slow: true })
  await until(said, 'handling')
  child.kill('SIGTERM')
  const ended = once(child, 'exit')
  // Until the first one has been heard, a second one would be the same signal.
  const again = setInterval(() => child.kill('SIGTERM'), 500)
  onTestFinished(() => clearInterval(again))
  expect(await ended, said()).toEqual([null, 'SIGTERM'])
})
