import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { type Around, cli, sharedDatabase } from '../support/cli.ts'

const shop = sharedDatabase()

const document = async (argv: string[], around: Around) => JSON.parse((await cli([...argv, '--json'], around)).stdout)

const refused = (code: string) => ({ exitCode: 1, stderr: expect.stringContaining(`(${code})`) })

describe('consumers pause', () => {
  it('pauses a consumer with a reason, which status shows, and resumes it', async () => {
    const around = shop.copy()
    const pause = ['consumers', 'pause', 'billing', '--note', 'the bank is down', '--actor', 'ada']
    expect((await cli([...pause, '--dry-run'], around)).stdout).toBe('would pause the consumer billing\n')
    expect((await document(['status'], around)).paused).toEqual([])
    expect((await cli(pause, around)).stdout).toMatch(
      /^paused the consumer billing\nto resume it: .*consumers resume billing/,
    )
    expect((await cli(['status'], around)).stdout).toMatch(/^consumer billing +\d+ m?s +ada +the bank is down$/m)
    expect((await document(['status'], around)).paused).toMatchObject([
      { origin: 'inbox', scope: 'billing', actor: 'ada' },
    ])
    expect(await cli(pause, around)).toMatchObject(refused('conflict'))
    expect((await cli(['consumers', 'resume', 'billing'], around)).stdout).toBe('resumed the consumer billing\n')
    expect(await cli(['consumers', 'resume', 'billing'], around)).toMatchObject(refused('not-found'))
  })

  it('refuses a name that nobody knows', async () => {
    const around = shop.copy()
    expect(await cli(['consumers', 'pause', 'biling'], around)).toMatchObject(refused('not-found'))
    expect(await cli(['relays', 'pause', 'billing'], around)).toMatchObject(refused('not-found'))
    expect(await document(['relays', 'pause', 'default'], around)).toMatchObject({ relay: 'default', change: 'pause' })
  })
})

describe('doctor', () => {
  it('warns of a pause that is older than a day', async () => {
    const around = shop.copy()
    await cli(['consumers', 'pause', 'billing', '--note', 'for a moment', '--actor', 'ada'], around)
    expect((await cli(['doctor'], around)).stdout).not.toContain('has been paused')
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    const { changes } = database.prepare('update hapax_pauses set at = at - 90000000').run()
    database.close()
    expect(changes).toBe(1)
    expect((await cli(['doctor'], around)).stdout).toMatch(
      /consumer billing has been paused since .*, by ada: for a moment/,
    )
  })
})

describe('operations', () => {
  it('a change by filter is one, with its actor and its counts', async () => {
    const around = shop.copy()
    await cli(['failed', 'discard', '--consumer', 'billing', '--yes', '--note', 'a test', '--actor', 'ada'], around)
    const { operations } = await document(['operations', 'list'], around)
    expect(operations).toMatchObject([
      { kind: 'discard', total: 3, done: 3, state: 'done', actor: 'ada', note: 'a test' },
    ])
    const [{ id }] = operations
    const { stdout } = await cli(['operations', 'show', id], around)
    expect(stdout).toMatch(/^progress +3 of 3: 3 done, 0 gone, 0 not done$/m)
    expect(await cli(['operations', 'cancel', id], around)).toMatchObject(refused('conflict'))
  })

  it('one that is left to the workers waits for them, and is paused, resumed and cancelled', async () => {
    const around = shop.copy()
    const { stdout } = await cli(['failed', 'retry', '--all', '--yes', '--detach', '--rate', '5'], around)
    const id = /began the operation (\S+): retrying 3 failed messages/.exec(stdout)?.[1] ?? ''
    expect((await cli(['status'], around)).stdout).toMatch(
      new RegExp(`^${id} +retry all +waits for a worker +0 of 3`, 'm'),
    )
    expect((await cli(['operations', 'pause', id], around)).stdout).toBe(`the operation ${id} is paused: 0 of 3\n`)
    expect(await cli(['operations', 'pause', id], around)).toMatchObject(refused('conflict'))
    expect((await document(['operations', 'resume', id], around)).operation).toMatchObject({ id, state: 'running' })
    expect((await document(['operations', 'cancel', id], around)).operation).toMatchObject({ id, state: 'cancelled' })
    expect((await document(['failed', 'list'], around)).messages).toHaveLength(3)
  })

  it('are not begun for messages that are named, nor without need', async () => {
    const around = shop.copy()
    expect(await cli(['failed', 'retry', '1', '--detach'], around)).toMatchObject({ exitCode: 2 })
    await cli(['failed', 'discard', '1'], around)
    expect((await cli(['operations', 'list'], around)).stdout).toMatch(/^no operations/)
    expect(await cli(['operations', 'show', 'nonsense'], around)).toMatchObject(refused('invalid-option'))
  })
})
