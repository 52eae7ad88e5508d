import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { requireServer } from '../support/servers.ts'

const root = join(import.meta.dirname, '..', '..')
const example = join(root, 'examples/quick-start-mysql.ts')

it('the quick start of the page about MySQL is the example that runs', () => {
  const page = readFileSync(join(root, 'docs/stores/mysql.md'), 'utf8')
  const shown = /<!-- quick-start[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
  expect(shown).toBe(readFileSync(example, 'utf8'))
})

it('it prints what its comments say, also when it is run a second time', async () => {
  const url = new URL(requireServer('mysql'))
  const name = `quick_${randomBytes(5).toString('hex')}`
  const admin = await createConnection({ uri: url.href })
  onTestFinished(async () => {
    await admin.query(`drop database if exists ${name}`)
    await admin.end()
  })
  await admin.query(`create database ${name}`)
  url.pathname = name
  const run = async (): Promise<string[]> => {
    const env = { ...process.env, MYSQL_URL: url.href }
    const args = ['--conditions=hapax-source', example]
    return (await promisify(execFile)(process.execPath, args, { env })).stdout.trim().split('\n')
  }
  expect(await run()).toEqual(['processed', 'duplicate', '2'])
  expect(await run()).toEqual(['duplicate', 'duplicate', '3'])
})
