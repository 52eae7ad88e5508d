import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Around, cli, sharedDatabase, temporaryDirectory } from '../support/cli.ts'
import { root } from '../support/pages.ts'

const database = sharedDatabase()

/** Runs `hapax console --json` until `use` is done with its address. */
async function opened(
  args: readonly string[],
  use: (url: URL) => Promise<void>,
  around: Around = {},
): Promise<{ exitCode: number; stderr: string }> {
  let end: (signal: 'SIGINT') => void = () => {}
  const found = Promise.withResolvers<URL>()
  const copy = database.copy()
  const env = { ...copy.env, ...around.env }
  const running = cli(['console', '--json', ...args], {
    cwd: copy.cwd,
    env,
    onStart: (signal) => {
      end = signal
    },
    onOutput: (text) => {
      const { url } = JSON.parse(text)
      found.resolve(new URL(url))
    },
  })
  const url = await Promise.race([found.promise, running.then(() => undefined)])
  if (url !== undefined) await use(url).finally(() => end('SIGINT'))
  return running
}

function signIn(url: URL): Promise<Response> {
  const token = new URLSearchParams(url.hash.slice(1)).get('token')
  const headers = { 'content-type': 'application/json', origin: url.origin }
  return fetch(new URL('api/login', url), { method: 'POST', headers, body: JSON.stringify({ token }) })
}

describe('hapax console', () => {
  it('opens on this machine, lets the browser in that has the token, and ends at Ctrl-C', async () => {
    const { exitCode } = await opened(['--actor', 'ada'], async (url) => {
      expect(url.hostname).toBe('127.0.0.1')
      const entered = await signIn(url)
      const cookie = entered.headers.get('set-cookie')?.split(';')[0] ?? ''
      const session = await fetch(new URL('api/session', url), { headers: { cookie } })
      expect(await session.json()).toMatchObject({ actor: 'ada', role: 'admin', readOnly: false })
      const groups = await fetch(new URL('api/failed/groups', url), { headers: { cookie } })
      expect(Object(await groups.json()).groups).toHaveLength(2)
      expect((await fetch(new URL('api/session', url))).status).toBe(401)
    })
    expect(exitCode).toBe(0)
  })

  it('changes nothing with --read-only, and nothing beyond --role', async () => {
    for (const [args, code] of [
      [['--read-only'], 'read-only'],
      [['--role', 'viewer'], 'role'],
    ] as const) {
      await opened(args, async (url) => {
        const cookie = (await signIn(url)).headers.get('set-cookie')?.split(';')[0] ?? ''
        const headers = { cookie, 'content-type': 'application/json', origin: url.origin }
        const response = await fetch(new URL('api/failed/1-7/retry', url), { method: 'POST', headers, body: '{}' })
        expect([response.status, Object(await response.json()).code]).toEqual([403, code])
      })
    }
  })

  it.for(['0.0.0.0:0', '[::]:0', '192.168.0.1:0', 'ops.test:0', '0:0'])(
    'does not open on %s without a login',
    async (listen) => {
      const { exitCode, stderr } = await opened(['--listen', listen], async () => expect.unreachable())
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining('expected --auth or HAPAX_CONSOLE_TOKEN')])
      // What to do is said in full: nothing of it looks like a secret.
      expect(stderr).not.toContain('***')
    },
  )

  it('asks which address people use, where it listens on all', async () => {
    const env = { HAPAX_CONSOLE_TOKEN: 'x'.repeat(32) }
    const { exitCode, stderr } = await opened(['--listen', '0.0.0.0:0'], async () => expect.unreachable(), { env })
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('expected --origin')])
  })

  it('reports why it did not open, although its store cannot be closed twice', async () => {
    const folder = temporaryDirectory()
    const file = join(folder, 'hapax.config.ts')
    const path = JSON.stringify(join(database.copy().cwd, 'shop.db'))
    writeFileSync(
      file,
      `import { sqlite } from ${JSON.stringify(join(root, 'src/stores/sqlite/index.ts'))}
      const store = sqlite({ path: ${path} })
      let closed = 0
      const close = async () => {
        if (++closed > 1) throw new Error('closed more than once')
        await store.close()
      }
      export default { store: { ...store, close } }`,
    )
    const people = join(folder, 'people')
    writeFileSync(people, 'ada:viewer:correct horse battery\n', { mode: 0o600 })
    const args = ['--config', file, '--listen', '0.0.0.0:0', '--auth', people]
    const { exitCode, stderr } = await opened(args, async () => expect.unreachable())
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('expected --origin')])
  })

  it('takes people from a file that only its owner can read', async () => {
    const file = join(temporaryDirectory(), 'people')
    writeFileSync(file, 'ada:viewer:correct horse battery\n', { mode: 0o644 })
    chmodSync(file, 0o644)
    const refused = await opened(['--auth', file], async () => expect.unreachable())
    expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining('can be read by others')])
    chmodSync(file, 0o600)
    await opened(['--auth', file], async (url) => {
      expect(url.hash).toBe('')
      expect((await fetch(url)).status).toBe(401)
      const authorization = `Basic ${Buffer.from('ada:correct horse battery').toString('base64')}`
      expect((await fetch(url, { headers: { authorization } })).status).toBe(200)
    })
  })

  it.for(['nowhere', '.'])('says that %s is no file with people', async (file) => {
    const { exitCode, stderr } = await opened(['--auth', file], async () => expect.unreachable())
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('--auth')])
  })

  it.runIf(process.platform === 'linux')('is reached under the address that it prints', async () => {
    await opened(['--listen', '127.0.0.2:0'], async (url) => {
      expect([url.hostname, (await fetch(url)).status]).toEqual(['127.0.0.2', 200])
    })
  })

  it('refuses a bearer token that can be guessed', async () => {
    const { exitCode } = await opened([], async () => expect.unreachable(), { env: { HAPAX_CONSOLE_TOKEN: 'secret' } })
    expect(exitCode).toBe(2)
  })
})
