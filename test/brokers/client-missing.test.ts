import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createHapax, silentLogger } from 'hapax'
import { sqlite } from 'hapax/sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../support/cli.ts'

const main = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts')

/** Makes a process in which these packages are not installed. */
function without(packages: readonly string[]): string {
  const hook = `
    import { registerHooks } from 'node:module'
    registerHooks({
      resolve(name, context, next) {
        if (!${JSON.stringify(packages)}.includes(name)) return next(name, context)
        throw Object.assign(new Error("Cannot find package '" + name + "' imported from " + context.parentURL), { code: 'ERR_MODULE_NOT_FOUND' })
      },
    })`
  return `data:text/javascript,${encodeURIComponent(hook)}`
}

it.for([
  ['amqp://127.0.0.1:1?exchange=shop', ['amqplib']],
  ['nats://127.0.0.1:1?stream=SHOP', ['@nats-io/jetstream']],
  ['redis://127.0.0.1:1?stream=orders', ['ioredis']],
  ['kafka://127.0.0.1:1?topic=orders', ['@platformatic/kafka']],
] as const)('a relay to %s ends at once where %s is not installed', async ([broker, packages]) => {
  const cwd = temporaryDirectory()
  const hapax = createHapax({ store: sqlite({ path: join(cwd, 'shop.db') }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  await hapax.close()
  const args = ['--conditions=hapax-source', '--import', without(packages), main, 'relay']
  const child = spawn(process.execPath, [...args, '--store', 'sqlite:shop.db', '--broker', broker], { cwd })
  onTestFinished(() => void child.kill('SIGKILL'))
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  const [code] = await once(child, 'close')
  expect(code).toBe(1)
  expect(said).toMatch(new RegExp(`needs .*: npm install .*${packages[0]}`))
  expect(said).not.toContain('started')
})
