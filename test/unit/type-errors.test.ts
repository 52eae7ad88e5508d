import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { kafka } from 'hapax/kafka'
import { mysql } from 'hapax/mysql'
import { nats } from 'hapax/nats'
import { postgres } from 'hapax/postgres'
import { rabbitmq } from 'hapax/rabbitmq'
import { redis } from 'hapax/redis'
import { redisStreams } from 'hapax/redis-streams'
import { describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'test/types/mistakes')

/** What the compiler says of the mistakes, by line. */
async function diagnostics(): Promise<ReadonlyMap<number, readonly string[]>> {
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  const output = await new Promise<string>((resolve) => {
    execFile(tsc, ['-p', FOLDER, '--pretty', 'false', '--checkers', '1'], { cwd: ROOT }, (_, stdout) => resolve(stdout))
  })
  const byLine = new Map<number, string[]>()
  // What a diagnostic explains is indented below it.
  for (const each of output.split(/\n(?=\S)/)) {
    const [, file, line, text = ''] = /^(.*?)\((\d+),\d+\): error TS\d+: (.*)/s.exec(each) ?? [undefined, each]
    if (!file?.endsWith('options.ts')) expect(each.trim()).toBe('')
    else byLine.set(Number(line), [...(byLine.get(Number(line)) ?? []), text.trim()])
  }
  return byLine
}

/** The mistakes, by line, and what has to be said of each. */
async function mistakes(): Promise<ReadonlyMap<number, RegExp>> {
  const lines = (await readFile(join(FOLDER, 'options.ts'), 'utf8')).split('\n')
  return new Map(
    lines.flatMap((text, index): [number, RegExp][] => {
      const [, kind, name] = /\S.*\/\/ (unknown|wrong): (\w+)$/.exec(text) ?? []
      if (kind === undefined) return []
      const unknown = new RegExp(
        `^Object literal may only specify known properties, (?:and|but) '${name}' does not exist`,
      )
      return [[index + 1, kind === 'unknown' ? unknown : new RegExp(`^Type '${name}' is not assignable to type`)]]
    }),
  )
}

it('the compiler names each mistake in options, at its own line, and says nothing of overloads', async () => {
  const [said, made] = [await diagnostics(), await mistakes()]
  expect(made.size).toBeGreaterThan(20)
  expect([...said.keys()]).toEqual([...made.keys()])
  for (const [line, what] of made) {
    expect(said.get(line)).toEqual([expect.stringMatching(what)])
  }
})

const unused = () => Promise.reject(new Error('unused'))
const pool = { connect: unused, query: unused }
const url = process.env['HAPAX_NO_SUCH_VARIABLE']
const UNSET = /^expected url to be a connection string, got undefined: is its environment variable set\?$/

describe('a url of an environment variable that is not set', () => {
  it.for<[string, () => unknown]>([
    ['postgres', () => postgres({ url })],
    ['mysql', () => mysql({ url })],
    ['redis', () => redis({ url })],
    ['rabbitmq', () => rabbitmq({ url })],
    ['nats', () => nats({ url })],
    ['kafka', () => kafka({ url })],
    ['redisStreams', () => redisStreams({ url })],
  ])('is refused by %s in one sentence', ([, make]) => {
    expect(make).toThrow(expect.objectContaining({ code: 'invalid-option', message: expect.stringMatching(UNSET) }))
  })

  it('is refused for control connections too', () => {
    expect(() => postgres({ pool, control: { url } })).toThrow(/^expected control\.url to be a connection string/)
  })
})

it('a pool and a url at once are refused, and so are options beside an object that has its own', () => {
  expect(() => postgres({ pool, url: 'postgres://localhost/shop' })).toThrow(/either a pool or a url, got "both"/)
  expect(() => postgres({ url: 'postgres://localhost/shop' }, { schema: 'x' })).toThrow(/second argument/)
})
