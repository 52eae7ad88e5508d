import { kafka } from 'hapax/kafka'
import { mysql } from 'hapax/mysql'
import { nats } from 'hapax/nats'
import { postgres } from 'hapax/postgres'
import { rabbitmq } from 'hapax/rabbitmq'
import { redis } from 'hapax/redis'
import { redisStreams } from 'hapax/redis-streams'
import { describe, expect, it } from 'vitest'

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
