import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createHapax, defineMessage, Permanent, silentLogger } from 'hapax'
import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { cli } from '../support/cli.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'

const Ping = defineMessage<{ readonly n: number }>('ping')
const message = (id: string) => ({ id, source: '/sender', type: 'ping', data: { n: 1 } })

describe('the command line on Redis', () => {
  let where: readonly string[]
  let prefix: string
  let url: string

  const open = () => createHapax({ store: redis({ url, prefix }), logger: silentLogger })
  const run = async (...argv: string[]) => {
    const { exitCode, stdout, stderr } = await cli([...argv, ...where])
    return { exitCode, stdout, stderr }
  }

  beforeAll(async () => {
    url = requireServer('redis')
    prefix = freshPrefix()
    where = ['--store', url, '--prefix', prefix]
    const hapax = open()
    const sms = hapax.leased('sms', { retry: { attempts: 2, minDelayMs: 600_000 } }).on(Ping, async (_, ctx) => {
      if (ctx.message.id === 'late') throw new Error('not yet')
      await ctx.effect('send', async () => {
        if (ctx.message.id !== 'fine') throw new Error('timeout')
      })
    })
    for (const id of ['fine', 'late', 'unknown', 'given up']) await sms.handle(message(id))
    await hapax.close()
  })

  /** The seqs of what has failed, the oldest first. */
  async function seqs(): Promise<[string, string]> {
    const { messages } = JSON.parse((await run('failed', 'list', '--json')).stdout) as { messages: { seq: string }[] }
    return messages.map(({ seq }) => seq).reverse() as [string, string]
  }

  it('counts, lists and shows', async () => {
    expect((await run('status')).stdout).toMatch(/consumer +retried +failed +types\n.*sms +0 +2/)
    expect(JSON.parse((await run('status', '--json')).stdout).consumers).toMatchObject([{ consumer: 'sms', failed: 2 }])
    const { stdout } = await run('failed', 'list')
    expect(stdout).toContain('unknown-effect')
    const [first] = await seqs()
    expect((await run('failed', 'show', first)).stdout).toContain(`failed settle ${first} send --done`)
    expect((await run('failed', 'list', '--consumer', 'other')).stdout).toContain('no failed messages')
  })

  it('runs a worker from a configuration', async () => {
    const config = `
      import { createHapax, defineMessage } from 'hapax'
      import { redis } from 'hapax/redis'
      const hapax = createHapax({ store: redis(${JSON.stringify({ url, prefix: freshPrefix() })}) })
      const sms = hapax.leased('sms').on(defineMessage('ping'), () => {})
      export default { hapax, worker: hapax.worker({ consume: [sms] }) }`
    // Inside the package, so that its own name is found.
    const file = join(import.meta.dirname, `work-${process.pid}.config.mjs`)
    writeFileSync(file, config)
    onTestFinished(() => rmSync(file))
    let log = ''
    let end: (signal: 'SIGTERM') => void = () => {}
    const ran = cli(['work', '--config', file], {
      onStart: (signal) => {
        end = signal
      },
      onError: (text) => {
        log += text
      },
    })
    await vi.waitFor(() => expect(log).toContain('worker started'), { timeout: 30_000 })
    expect(log).toContain('worker starting: consumes sms')
    end('SIGTERM')
    expect(await ran).toMatchObject({ exitCode: 0 })
  })

  it('takes the number of a message alone, unless several have it', async () => {
    const [first] = await seqs()
    const number = first.slice(0, first.indexOf('-'))
    expect(JSON.parse((await run('failed', 'show', number, '--json')).stdout).seq).toBe(first)
    expect((await run('failed', 'show', '99')).stderr).toContain('there is no failed message 99 (not-found)')
    const dry = await run('failed', 'discard', number, '--dry-run')
    expect(dry.stdout).toMatch(new RegExp(`^would discard +${first} `))
  })

  it('does not guess where a number was given out twice, as after a fail-over', async () => {
    const own = freshPrefix()
    const client = new Redis(url)
    const hapax = createHapax({ store: redis({ client, prefix: own }), logger: silentLogger })
    const sms = hapax.leased('sms').on(Ping, () => {
      throw new Permanent('no such number')
    })
    await sms.handle(message('before'))
    await client.del(`${own}{failed}:seq`)
    await sms.handle(message('after'))
    const rows = await hapax.failed.list()
    expect(rows.map(({ seq }) => seq.slice(0, 2))).toEqual(['1-', '1-'])
    const at = ['--store', url, '--prefix', own]
    const refused = await cli(['failed', 'discard', '1', ...at])
    expect(refused).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('several messages have the number 1'),
    })
    for (const { seq } of rows) expect(refused.stderr).toContain(seq)
    const before = rows.find(({ message: { id } }) => id === 'before')?.seq as string
    const { stdout } = await cli(['failed', 'show', before, ...at])
    expect(stdout).toMatch(/^id +before$/m)
    // There is no such command here.
    expect(stdout).not.toContain('failed edit')
    expect(await hapax.failed.count()).toBe(2)
    await hapax.close()
    client.disconnect()
  })

  it('explains what is done, what waits and what has failed', async () => {
    expect((await run('explain', 'fine')).stdout).toContain('sms is done with it')
    expect((await run('explain', 'late', '--source', '/sender')).stdout).toMatch(
      /claimed for sms; 1 attempt so far[\s\S]*Next, another delivery by its broker retries it in \d+ min/,
    )
    expect((await run('explain', 'unknown')).stdout).toContain("external call 'send'")
    expect(await run('explain', 'nobody')).toMatchObject({ exitCode: 1 })
  })

  it('settles and discards; a worker does the rest', async () => {
    const [first, second] = await seqs()
    expect(await run('failed', 'settle', first, 'send', '--done', '--result', '5')).toMatchObject({ exitCode: 0 })
    expect(await run('failed', 'discard', second)).toMatchObject({ exitCode: 0 })
    expect((await run('explain', 'unknown')).stdout).toContain('Next, a worker of sms handles it, due now.')
    const hapax = open()
    const results: unknown[] = []
    const sms = hapax.leased('sms').on(Ping, async (_, ctx) => {
      results.push(await ctx.effect('send', () => 'sent again'))
    })
    const worker = hapax.worker({ consume: [sms], pollMs: 20 })
    await worker.start()
    await worker.drain()
    await worker.stop()
    await hapax.close()
    expect(results).toEqual([5])
    expect((await run('explain', 'unknown')).stdout).toContain('sms is done with it')
  })

  it('says what is wrong with the server', async () => {
    const { stdout } = await run('doctor', '--json')
    const { findings } = JSON.parse(stdout) as { findings: { check: string; level: string }[] }
    expect(findings.map(({ check }) => check)).toEqual([
      'role',
      'version',
      'eviction',
      'persistence',
      'fail-over',
      'memory',
      'failed',
    ])
  })

  it.each([
    ['migrate'],
    ['keys list'],
    ['relays list'],
    ['consumers list'],
    ['sent list'],
    ['failed edit 1-1 --data {}'],
  ])('says that there is no %s', async (words) => {
    const { exitCode, stderr } = await run(...words.split(' '))
    expect(exitCode).not.toBe(0)
    expect(stderr).toContain('stores leased work only')
  })

  it('refuses --schema, and shows no password', async () => {
    const refused = await cli(['status', '--store', url, '--schema', 'x'])
    expect(refused.stderr).toContain('use --prefix on redis')
    const { stderr } = await cli(['keys', 'list', '--store', 'redis://:secret@127.0.0.1:1'])
    expect(stderr).not.toContain('secret')
  })
})
