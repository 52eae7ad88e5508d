import { describe, expect, it, type TestContext } from 'vitest'
import { requireServer } from '../support/servers.ts'
import { directoryIn, javascript, nodeOf, nodeVersions, packed, run } from './app.ts'

const imports = `
import { createHapax, defineMessage } from 'hapax'
import { mysql } from 'hapax/mysql'
import { nats } from 'hapax/nats'
import { postgres } from 'hapax/postgres'
import { rabbitmq } from 'hapax/rabbitmq'
import { sqlite } from 'hapax/sqlite'

const source = '/shop'
const store = sqlite({ path: ':memory:' })
const OrderPlaced = defineMessage('order.placed')
`

/** The URL of a server with a user whom it does not know. */
function stranger(server: 'postgres' | 'mysql' | 'rabbitmq'): string {
  const url = new URL(requireServer(server))
  url.username = 'stranger'
  url.password = 'wrong'
  return url.href
}

interface Mistake {
  readonly name: string
  readonly body: () => string
  readonly code: string
  /** What the sentence has to name: the mistake, and what to do. */
  readonly says: readonly string[]
}

const mistakes: readonly Mistake[] = [
  {
    name: 'a URL that is none',
    body: () => `postgres({ url: 'localhost/shop' })`,
    code: 'invalid-option',
    says: ['expected url to be a postgres:// URL'],
  },
  {
    name: 'a URL from a variable that is not set',
    body: () => `postgres({ url: process.env.NO_SUCH_VARIABLE })`,
    code: 'invalid-option',
    says: ['expected url to be a connection string, got undefined: is its environment variable set?'],
  },
  {
    name: 'a URL of another database',
    body: () => `mysql({ url: 'postgres://localhost/shop' })`,
    code: 'invalid-option',
    says: ['expected url to be', 'mysql://'],
  },
  {
    name: 'an address where no database is',
    body: () => `await createHapax({ store: postgres({ url: 'postgres://127.0.0.1:1/shop' }), source }).migrate()`,
    code: 'store-unavailable',
    says: ['postgres could not be reached: connect ECONNREFUSED 127.0.0.1:1'],
  },
  {
    name: 'a user that PostgreSQL does not know',
    body: () => `await createHapax({ store: postgres({ url: '${stranger('postgres')}' }), source }).migrate()`,
    code: 'store-unavailable',
    says: ['postgres could not be reached', 'stranger'],
  },
  {
    name: 'a password that MariaDB refuses',
    body: () => `await createHapax({ store: mysql({ url: '${stranger('mysql')}' }), source }).migrate()`,
    code: 'store-unavailable',
    says: ['mysql could not be reached: Access denied for user', 'stranger'],
  },
  {
    name: 'a password that RabbitMQ refuses',
    body: () => `
      const hapax = createHapax({ store, source })
      await hapax.migrate()
      const billing = hapax.consumer('billing').on(OrderPlaced, () => {})
      const queue = rabbitmq({ url: '${stranger('rabbitmq')}' }).queue('billing')
      await hapax.worker({ consume: [billing.from(queue)] }).start()`,
    code: 'broker-refused',
    says: ['could not connect to RabbitMQ at amqp://', 'it refuses the user or the password', 'check both'],
  },
  {
    name: 'a misspelt option of createHapax',
    body: () => `createHapax({ store, source, deliver: 'local' })`,
    code: 'invalid-option',
    says: ['options of createHapax', 'delivery', '"deliver"'],
  },
  {
    name: 'a misspelt option of a consumer',
    body: () => `createHapax({ store, source }).consumer('billing', { retries: { attempts: 3 } })`,
    code: 'invalid-option',
    says: ['options of consumer', 'retry', '"retries"'],
  },
  {
    name: 'an unknown option of a broker',
    body: () => `rabbitmq({ url: 'amqp://localhost', heartbeat: 10 })`,
    code: 'invalid-option',
    says: ['options of rabbitmq', 'heartbeatMs', '"heartbeat"'],
  },
  {
    name: 'an unknown option of a queue',
    body: () => `rabbitmq({ url: 'amqp://localhost' }).queue('billing', { binding: { exchange: 'shop' } })`,
    code: 'invalid-option',
    says: ['options of queue', 'bind', '"binding"'],
  },
  {
    name: 'tables that were not made, for a worker',
    body: () => `
      const hapax = createHapax({ store, source })
      await hapax.worker({ consume: [hapax.consumer('billing').on(OrderPlaced, () => {})] }).start()`,
    code: 'schema-missing',
    says: ['the tables of hapax are missing', 'run hapax.migrate() or npx hapax migrate'],
  },
  {
    name: 'tables that were not made, for a delivery',
    body: () => `
      const billing = createHapax({ store, source }).consumer('billing').on(OrderPlaced, () => {})
      await billing.handle({ id: '1', type: 'order.placed', source: '/x', data: {} })`,
    code: 'schema-missing',
    says: ['the tables of hapax are missing', 'run hapax.migrate() or npx hapax migrate'],
  },
  {
    name: 'a consumer without handlers',
    body: () => `
      const hapax = createHapax({ store, source })
      await hapax.migrate()
      await hapax.worker({ consume: [hapax.consumer('billing')] }).start()`,
    code: 'invalid-option',
    says: ['consumer billing', 'at least one handler'],
  },
]

/** Programs for a project that has no client of MySQL and none of NATS. */
const missing: readonly Mistake[] = [
  {
    name: 'no mysql2',
    body: () => `await createHapax({ store: mysql({ url: 'mysql://localhost/shop' }), source }).migrate()`,
    code: 'client-missing',
    says: ['mysql2', 'npm install mysql2'],
  },
  {
    name: 'no client of NATS',
    body: () => `
      const hapax = createHapax({ store, source })
      await hapax.migrate()
      await hapax.worker({ relay: nats({ url: 'nats://localhost' }).stream('SHOP') }).start()`,
    code: 'client-missing',
    says: ['npm install', '@nats-io/transport-node', '@nats-io/jetstream'],
  },
]

/** Programs for a project whose clients are too old. */
const old: readonly Mistake[] = [
  {
    name: 'a pg that is too old',
    body: () => `await createHapax({ store: postgres({ url: 'postgres://127.0.0.1:1/shop' }), source }).migrate()`,
    code: 'client-too-old',
    says: ['postgres({ url }) needs pg 8.9.0 or later, found 8.8.0: npm install pg@latest'],
  },
  {
    name: 'an amqplib that is too old',
    body: () => `
      const hapax = createHapax({ store, source })
      await hapax.migrate()
      await hapax.worker({ relay: rabbitmq({ url: 'amqp://localhost' }).exchange('shop') }).start()`,
    code: 'client-too-old',
    says: ['rabbitmq({ url }) needs amqplib 0.10.0 or later, found 0.9.1: npm install amqplib@latest'],
  },
]

async function told(node: string, project: string, body: string): Promise<{ code: string; message: string }> {
  const cwd = directoryIn(project)
  const program = `${imports}
try {
  ${body}
  console.log(JSON.stringify({ code: 'none', message: 'nothing was thrown' }))
} catch ({ code, message }) {
  console.log(JSON.stringify({ code, message }))
}
process.exit()`
  const { stdout, stderr } = await run(node, ['--no-warnings', javascript(cwd, program)], { cwd })
  expect(stdout, stderr).not.toBe('')
  return JSON.parse(stdout)
}

describe.for(nodeVersions)('on Node.js %s, the error names the mistake and what to do:', (version) => {
  const check = async (
    context: TestContext,
    project: 'project' | 'old' | 'forced',
    mistake: Mistake,
  ): Promise<void> => {
    const installed = packed(context)
    const { code, message } = await told(nodeOf(installed, version), installed[project], mistake.body())
    expect(code, message).toBe(mistake.code)
    for (const part of mistake.says) expect(message).toContain(part)
  }

  it.for(mistakes)('$name', (mistake, context) => check(context, 'project', mistake))
  it.for(missing)('$name', (mistake, context) => check(context, 'old', mistake))
  it.for(old)('$name', (mistake, context) => check(context, 'forced', mistake))
})
