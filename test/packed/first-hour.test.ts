import { describe, expect, it, type TestContext } from 'vitest'
import { directoryIn, javascript, nodeOf, nodeVersions, packed, type Ran, run } from './app.ts'

interface LogLine {
  readonly level: string
  readonly msg: string
  readonly [field: string]: unknown
}

async function started(context: TestContext, version: string, program: string): Promise<Ran> {
  const told = packed(context)
  const cwd = directoryIn(told.project)
  const ran = await run(nodeOf(told, version), ['--no-warnings', javascript(cwd, program)], { cwd })
  expect(ran.code, ran.stderr).toBe(0)
  return ran
}

function logged({ stderr }: Ran): LogLine[] {
  return stderr
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}

const failing = `
import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
const billing = hapax.consumer('billing').on(defineMessage('order.placed'), (order) => {
  throw new TypeError('no price for ' + order.orderId)
})
const delivery = { id: 'evt_1', type: 'order.placed', source: '/stripe', data: { orderId: 'A1' } }
console.log((await billing.handle(delivery)).status)
await hapax.close()
`

/** Two services that share their tables, and the name of a consumer. */
const twoServices = `
import { createHapax, defineMessage } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import { sqlite } from 'hapax/sqlite'

const broker = memoryBroker()
const service = (source, type) => {
  const hapax = createHapax({ store: sqlite({ path: 'company.db' }), source })
  return { hapax, audit: hapax.consumer('audit').on(defineMessage(type), () => {}) }
}
const shop = service('/shop', 'order.placed')
const billing = service('/billing', 'invoice.sent')
await shop.hapax.migrate()
const workers = [
  shop.hapax.worker({ relay: broker.topic('shop'), consume: [shop.audit] }),
  billing.hapax.worker({ consume: [billing.audit] }),
]
for (const worker of workers) await worker.start()
try {
  await billing.hapax.worker({ relay: broker.topic('billing') }).start()
} catch ({ code, message }) {
  console.log(code + ': ' + message)
}
for (const worker of workers) await worker.stop()
await shop.hapax.close()
await billing.hapax.close()
`

describe.for(nodeVersions)('on Node.js %s', (version) => {
  it('a handler that throws on its first message is seen on the console, with the place, the time and what to do', async (context) => {
    const ran = await started(context, version, failing)
    expect(ran.stdout).toBe('retrying\n')
    const [failed, unserved] = logged(ran)
    expect(failed).toMatchObject({
      level: 'warn',
      consumer: 'billing',
      about: { id: 'evt_1', source: '/stripe', type: 'order.placed' },
      error: 'no price for A1',
    })
    expect(failed?.msg).toContain('the handler of order.placed failed (attempt 1 of')
    expect(failed?.stack).toMatch(/^TypeError: no price for A1\n.*app\.js:\d+/)
    expect(Date.parse(String(failed?.time))).not.toBeNaN()
    // No worker runs: the message would wait for ever.
    expect(unserved?.msg).toContain('no live worker handles order.placed')
    expect(unserved?.advice).toContain('Start a worker')
  })

  it('two services on one database are told of a name that both use, and of a relay that is not theirs', async (context) => {
    const ran = await started(context, version, twoServices)
    expect(ran.stdout).toMatch(/^relay-moved: expected relay default to go to .*shop.*, got .*billing/)
    expect(ran.stdout).toContain('give this one a relay of its own (createHapax({ relay })')
    const shared = logged(ran).filter(({ msg }) =>
      msg.includes('the consumer audit is served by different applications'),
    )
    expect(shared.length).toBeGreaterThan(0)
    expect(shared[0]?.msg).toContain('/billing')
  })
})
