import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../support/cli.ts'

const root = join(import.meta.dirname, '..', '..')
const example = join(root, 'examples/express-orders.ts')

it('the page about HTTP shows the example', () => {
  const page = readFileSync(join(root, 'docs/http.md'), 'utf8')
  const shown = /<!-- express-orders[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
  expect(shown).toBe(readFileSync(example, 'utf8'))
})

it('the example takes an order once, over a real socket', async () => {
  const cwd = temporaryDirectory()
  const args = ['--conditions=hapax-source', '--disable-warning=ExperimentalWarning', example]
  const server = spawn(process.execPath, args, { cwd, env: { ...process.env, PORT: '0' } })
  onTestFinished(() => void server.kill('SIGKILL'))
  const port = await portOf(server)
  const send = (key: string, body: object | string, user = 'ann'): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key, 'x-user': user },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  const first = await send('k1', { item: 'tea' })
  const second = await send('"k1"', { item: 'tea' })
  expect([first.status, first.headers.get('location'), await first.json()]).toEqual([
    201,
    '/orders/1',
    { id: 1, item: 'tea' },
  ])
  expect(second.headers.get('idempotent-replayed')).toBe('true')
  expect([second.status, await second.json()]).toEqual([201, { id: 1, item: 'tea' }])
  expect((await send('k1', { item: 'coffee' })).status).toBe(422)
  expect((await send('k1', { item: 'tea' }, '')).status).toBe(401)
  expect(await (await send('k1', { item: 'tea' }, 'bob')).json()).toEqual({ id: 2, item: 'tea' })
  for (const [key, body] of ['{', 'null', '[]', '{}'].entries()) {
    const refused = await send(`k${key + 2}`, body)
    expect([refused.status, await refused.json()]).toEqual([422, { error: 'an item is missing' }])
  }
  const database = new DatabaseSync(join(cwd, 'shop.db'))
  expect(database.prepare('select item, buyer from orders order by id').all()).toMatchObject([
    { item: 'tea', buyer: 'ann' },
    { item: 'tea', buyer: 'bob' },
  ])
  database.close()
})

function portOf(server: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = ''
    const hear = (chunk: Buffer): void => {
      said += chunk.toString()
      const port = /port: (\d+)/.exec(said)?.[1]
      if (port !== undefined) resolve(Number(port))
    }
    server.stdout?.on('data', hear)
    server.stderr?.on('data', hear)
    server.once('exit', () => reject(new Error(`the example ended: ${said}`)))
  })
}
