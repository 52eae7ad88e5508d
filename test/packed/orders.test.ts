import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'amqplib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { requireServer } from '../support/servers.ts'
import { compiled, directoryIn, javascript, nodeOf, nodeVersions, packed, run } from './app.ts'

const example = readFileSync(join(import.meta.dirname, '..', '..', 'examples', 'rabbitmq.ts'), 'utf8')

/** The example with an exchange and a queue of its own, because the server is shared. */
function ofItsOwn(): string {
  const suffix = randomBytes(5).toString('hex')
  onTestFinished(() => remove(`shop-${suffix}`, `billing-${suffix}`))
  return example.replaceAll(`'shop'`, `'shop-${suffix}'`).replaceAll(`queue('billing'`, `queue('billing-${suffix}'`)
}

async function remove(exchange: string, queue: string): Promise<void> {
  const connection = await connect(requireServer('rabbitmq'))
  const channel = await connection.createChannel()
  await channel.deleteQueue(queue)
  await channel.deleteExchange(exchange)
  await connection.close()
}

describe.for(nodeVersions)('an order service with RabbitMQ on Node.js %s', (version) => {
  it.for(['JavaScript', 'TypeScript'] as const)('publishes and takes an order, in %s', async (language, context) => {
    const told = packed(context)
    const directory = directoryIn(told.project)
    const text = ofItsOwn()
    const program =
      language === 'JavaScript' ? javascript(directory, text) : await compiled(told.project, directory, text)
    const env = { RABBITMQ_URL: requireServer('rabbitmq') }
    const { code, stdout, stderr } = await run(nodeOf(told, version), ['--no-warnings', program], {
      cwd: directory,
      env,
    })
    expect(stderr).toBe('')
    expect(stdout).toContain(`{ order_id: 'A1', amount: 42 }`)
    expect(code).toBe(0)
  })
})

it('does the same with the oldest clients that are allowed', async (context) => {
  const told = packed(context)
  const directory = directoryIn(told.old)
  const env = { RABBITMQ_URL: requireServer('rabbitmq') }
  const program = javascript(directory, ofItsOwn())
  const { code, stdout } = await run(nodeOf(told, nodeVersions[0]), ['--no-warnings', program], { cwd: directory, env })
  expect(stdout).toContain(`{ order_id: 'A1', amount: 42 }`)
  expect(code).toBe(0)
})
