import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { noPrivateServer, privateServer } from '../support/private-server.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const example = join(root, 'examples/redis-streams.ts')

describe('the page about Redis Streams', () => {
  it('shows the example that runs', () => {
    const page = readFileSync(join(root, 'docs/brokers/redis-streams.md'), 'utf8')
    const shown = /<!-- example[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
    expect(shown).toBe(readFileSync(example, 'utf8'))
  })

  it.skipIf(noPrivateServer('redis'))('has an example that prints what its comment says, and ends', async () => {
    await using server = await privateServer('redis')
    const folder = mkdtempSync(join(tmpdir(), 'hapax-redis-example-'))
    try {
      const args = ['--conditions=hapax-source', '--no-warnings', example]
      const env = { ...process.env, REDIS_URL: server.url }
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env })
      expect(stdout).toMatch(/order_id: 'A1', amount: 42/)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
