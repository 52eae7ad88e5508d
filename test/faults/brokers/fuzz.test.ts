import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { seed } from '../../support/seeded.ts'
import { serverVariables, testBrokers } from '../../support/servers.ts'

const child = fileURLToPath(new URL('fuzz-child.ts', import.meta.url))
const isFull = process.env['HAPAX_TEST_FUZZ'] === 'full'
const count = isFull ? 5_000 : 150
const brokers = testBrokers().filter((name) => name !== 'kafka' || process.env[serverVariables.kafka])

// In a process of its own, so that an error that nobody catches is seen.
describe('K16: hostile messages beside good ones', () => {
  it.for(brokers)(
    `%s: every good one takes effect, every bad one is kept or refused (HAPAX_TEST_SEED=${seed})`,
    { timeout: isFull ? 1_800_000 : 180_000 },
    async (broker) => {
      const command = ['--conditions=hapax-source', '--no-warnings', child, broker, String(seed), String(count)]
      const { stdout } = await promisify(execFile)(process.execPath, command)
      console.log(`${broker}: ${stdout.trim()}; seed ${seed}`)
      expect(stdout).toMatch(/took effect/)
    },
  )
})
