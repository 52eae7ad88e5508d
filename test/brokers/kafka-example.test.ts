import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { noPrivateServer, privateServer } from '../support/private-server.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const example = join(root, 'examples/kafka.ts')

describe('the page about Kafka', () => {
  it('shows the example that runs', () => {
    const page = readFileSync(join(root, 'docs/brokers/kafka.md'), 'utf8')
    const shown = /<!-- example[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
    expect(shown).toBe(readFileSync(example, 'utf8'))
  })

  it.skipIf(noPrivateServer('kafka'))(
    'has an example that prints what its comment says, and ends (protocol mock)',
    async () => {
      await using server = await privateServer('kafka')
      const folder = mkdtempSync(join(tmpdir(), 'hapax-kafka-example-'))
      try {
        const args = ['--conditions=hapax-source', '--no-warnings', example]
        const env = { ...process.env, KAFKA_URL: server.url }
        const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env })
        expect(stdout).toMatch(/order_id: 'A1', amount: 42/)
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
  )
})
