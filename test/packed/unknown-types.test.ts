import { randomBytes } from 'node:crypto'
import { connect } from 'amqplib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { requireServer } from '../support/servers.ts'
import { directoryIn, javascript, nodeOf, nodeVersions, packed, run } from './app.ts'

/** A queue to which a stranger sends one type that is handled, and one that is not. */
const program = `
import { connect } from 'amqplib'
import { createHapax, defineMessage } from 'hapax'
import { rabbitmq } from 'hapax/rabbitmq'
import { sqlite } from 'hapax/sqlite'

const [queue, policy] = process.argv.slice(2)
const url = process.env.RABBITMQ_URL
const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
const options = policy === 'default' ? {} : { unknown: policy === 'handler' ? (data) => console.log('unknown', data.n) : policy }
const handled = Promise.withResolvers()
const billing = hapax.consumer('billing', options).on(defineMessage('order.placed'), () => handled.resolve())
const worker = hapax.worker({ consume: [billing.from(rabbitmq({ url }).queue(queue))] })
await worker.start()
const connection = await connect(url)
const channel = await connection.createConfirmChannel()
const send = (id, type) => channel.sendToQueue(queue, Buffer.from('{"n":1}'), {
  contentType: 'application/json',
  headers: { 'cloudEvents:specversion': '1.0', 'cloudEvents:id': id, 'cloudEvents:type': type, 'cloudEvents:source': '/x' },
})
send('1', 'order.forgotten')
send('2', 'order.placed')
await channel.waitForConfirms()
await handled.promise
await worker.stop()
await connection.close()
for (const { reason } of await hapax.failed.list()) console.log('failed', reason)
await hapax.close()
`

describe.for(nodeVersions)('a type that nobody handles, on Node.js %s,', (version) => {
  it.for([
    ['default', 'goes to the failed store', 'failed unknown-type\n'],
    ['ignore', 'is left out', ''],
    ['handler', 'goes to the function for it', 'unknown 1\n'],
  ] as const)('with the policy %s %s, and the queue goes on', async ([policy, , printed], context) => {
    const told = packed(context)
    const cwd = directoryIn(told.project)
    const queue = `packed-${randomBytes(5).toString('hex')}`
    onTestFinished(() => remove(queue))
    const args = ['--no-warnings', javascript(cwd, program), queue, policy]
    const { code, stdout, stderr } = await run(nodeOf(told, version), args, {
      cwd,
      env: { RABBITMQ_URL: requireServer('rabbitmq') },
    })
    expect(stdout, stderr).toBe(printed)
    expect(code, stderr).toBe(0)
  })
})

async function remove(queue: string): Promise<void> {
  const connection = await connect(requireServer('rabbitmq'))
  const channel = await connection.createChannel()
  await channel.deleteQueue(queue)
  await connection.close()
}
