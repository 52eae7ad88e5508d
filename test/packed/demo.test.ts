import { join } from 'node:path'
import { expect, it } from 'vitest'
import { directoryIn, nodeOf, nodeVersions, packed, run } from './app.ts'

it.for(nodeVersions)(
  'the demonstration loses and doubles nothing while workers are killed, on Node.js %s',
  async (version, context) => {
    const told = packed(context)
    const main = join(told.project, 'node_modules', 'hapax', 'dist', 'cli', 'main.js')
    const args = ['--no-warnings', main, 'demo', '--messages', '60', '--kills', '3', '--seed', '7', '--json']
    const { code, stdout, stderr } = await run(nodeOf(told, version), args, { cwd: directoryIn(told.project) })
    expect([code, stderr]).toEqual([0, ''])
    expect(JSON.parse(stdout)).toMatchObject({ sent: 60, invoices: 60, kills: 3, lost: 0, doubled: 0, failed: 0 })
  },
)
