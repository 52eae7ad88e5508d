import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { neededServers, requireServer } from '../support/servers.ts'

const child = fileURLToPath(new URL('garbage-child.ts', import.meta.url))

// In a process of its own, so that an error that nobody catches is seen.
describe('K22: bytes that no server would send', () => {
  it.for((['postgres', 'rabbitmq', 'redis'] as const).filter((kind) => neededServers().includes(kind)))(
    'end a link of %s, and no process; what comes next works',
    { timeout: 400_000 },
    async (kind) => {
      const command = ['--conditions=hapax-source', '--no-warnings', child, kind, requireServer(kind)]
      const { stdout } = await promisify(execFile)(process.execPath, command, { timeout: 390_000 })
      expect(stdout.trim().split('\n').at(-1)).toBe('alive')
    },
  )
})
