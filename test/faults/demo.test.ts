import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { cli, temporaryDirectory } from '../support/cli.ts'

const main = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts')

it('invoices every order once through duplicates, errors and killed workers', async () => {
  const argv = [main, 'demo', '--messages', '60', '--kills', '3', '--seed', '7', '--json']
  const env = { ...process.env, TMPDIR: temporaryDirectory() }
  const { stdout, stderr } = await promisify(execFile)(process.execPath, argv, { env })
  expect(stderr).toBe('')
  const result = JSON.parse(stdout)
  expect(result).toMatchObject({ seed: 7, sent: 60, invoices: 60, kills: 3, lost: 0, doubled: 0, failed: 0 })
  expect(result.delivered).toBeGreaterThan(60)
  expect(result.duplicates).toBeGreaterThan(0)
  expect(result.retried).toBeGreaterThan(0)

  const database = new DatabaseSync(result.store.slice('sqlite:'.length), { readOnly: true })
  const orders = database.prepare('select order_id from invoices order by order_id').all()
  database.close()
  expect(orders.map((row) => row['order_id'])).toEqual(Array.from({ length: 60 }, (_, index) => index + 1))

  const explained = await cli(['explain', result.exampleId, '--store', result.store])
  expect(explained.stdout).toContain('billing is done with it')
})
