import { isIP } from 'node:net'
import fc from 'fast-check'
import { webhooks } from 'hapax/webhooks'
import ipaddr from 'ipaddr.js'
import { describe, expect, it, test } from 'vitest'
import { addressBytes, blockOf, isIn, isPublic } from '../../src/http/webhooks/outgoing/addresses.ts'

type Oracle = ipaddr.IPv4 | ipaddr.IPv6

/** What ipaddr.js takes for an ordinary address, and hapax does not call. */
const STRICTER = [
  // Every other address of IPv6: nothing is assigned outside of 2000::/3.
  '::/3',
  '4000::/2',
  '8000::/1',
  // The 6bone, returned in 2006.
  '3ffe::/16',
  // Public, but machines in Azure reach their host by it.
  '168.63.129.16/32',
].map((text) => blockOf(text))

function isStricter(bytes: Uint8Array): boolean {
  return STRICTER.some((block) => block !== undefined && isIn(block, bytes))
}

/** How hapax and ipaddr.js disagree about an address. */
function disagreement(address: Oracle): string | undefined {
  const bytes = Uint8Array.from(address.toByteArray())
  const ours = isPublic(bytes)
  const theirs = address.range() === 'unicast'
  if (ours === theirs) return undefined
  return !ours && isStricter(bytes) ? undefined : `${address}: ${address.range()}, but public: ${ours}`
}

/** An address as a number, and back. */
function numberOf(bytes: readonly number[]): bigint {
  return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
}

function addressOf(number: bigint, length: number): Oracle {
  const bytes = Array.from({ length }, (_, index) => Number((number >> BigInt(8 * (length - 1 - index))) & 0xffn))
  return ipaddr.fromByteArray(bytes)
}

/** The first and the last address of a block, and those beside them. */
function edges(first: Oracle, bits: number): Oracle[] {
  const bytes = first.toByteArray()
  const width = BigInt(bytes.length * 8)
  const size = 1n << (width - BigInt(bits))
  const from = (numberOf(bytes) / size) * size
  return [from - 1n, from, from + 1n, from + size / 2n, from + size - 2n, from + size - 1n, from + size]
    .filter((number) => number >= 0n && number < 1n << width)
    .map((number) => addressOf(number, bytes.length))
}

/** The table of ipaddr.js: the blocks of each range. */
function blocksOf(prototype: object): [Oracle, number][] {
  const ranges: Record<string, unknown> = Reflect.get(prototype, 'SpecialRanges')
  const isBlock = (value: unknown): value is [Oracle, number] => Array.isArray(value) && typeof value[1] === 'number'
  return Object.values(ranges).flatMap((range) => (isBlock(range) ? [range] : (range as [Oracle, number][])))
}

/** Blocks that hapax names by itself, and some around them. */
const OURS = [
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24',
  '192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24',
  '224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 ::/128 ::1/128 ::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48',
  '100::/64 100:0:0:1::/64 2000::/3 2001::/23 2001::/32 2001:db8::/32 2002::/16 2620:4f:8000::/48 3ffe::/16 3fff::/20 4000::/3',
  '5f00::/16 8000::/1 e000::/4 fc00::/7 fd00:ec2::/32 fe00::/9 fe80::/10 fec0::/10 ff00::/8',
].flatMap((line) => line.split(' '))

describe('the table of addresses', () => {
  it('agrees with ipaddr.js at the edges of every block of either table', () => {
    const theirs = [...blocksOf(ipaddr.IPv4.prototype), ...blocksOf(ipaddr.IPv6.prototype)]
    const all = [...theirs, ...OURS.map((text) => ipaddr.parseCIDR(text))]
    expect(all.length).toBeGreaterThan(70)
    expect(
      all
        .flatMap(([first, bits]) => edges(first, bits))
        .map(disagreement)
        .filter(Boolean),
    ).toEqual([])
  })

  it('agrees with ipaddr.js about any address', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 4, maxLength: 4 }),
      fc.uint8Array({ minLength: 16, maxLength: 16 }),
      // Most assigned addresses, and most exceptions, begin like this.
      fc.uint8Array({ minLength: 14, maxLength: 14 }).map((rest) => Uint8Array.from([0x20, 0x01, ...rest])),
    )
    fc.assert(
      fc.property(bytes, (address) => {
        expect(disagreement(ipaddr.fromByteArray([...address]))).toBeUndefined()
      }),
      { numRuns: 5_000 },
    )
  })

  test.for(['8.8.8.8', '1.1.1.1', '93.184.216.34', '168.63.129.15', '2606:4700::6810:84e5', '2a00:1450:4001::1'])(
    'has %s as a public one',
    (address) => expect(isPublic(addressBytes(address) ?? new Uint8Array())).toBe(true),
  )
})

describe('addressBytes', () => {
  it('reads what Node.js takes for an address as ipaddr.js does', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
        // ipaddr.js takes ::1.2.3.4 for ::ffff:1.2.3.4; both are refused.
        fc.pre(!/^::\d+\.\d+\.\d+\.\d+$/.test(text))
        expect([...(addressBytes(text) ?? [])]).toEqual(ipaddr.parse(text).toByteArray())
      }),
      { numRuns: 2_000 },
    )
  })

  test.for([
    '',
    'localhost',
    '1',
    '0x7f.1',
    '127.1',
    '0177.0.0.1',
    '1.2.3.4.',
    '[::1]',
    'fe80::1%eth0',
    '::1%1',
    '1.2.3.4/8',
  ])('does not take %j for one', (text) => {
    expect(addressBytes(text)).toBeUndefined()
    expect(isIP(text) === 0 || text.includes('%')).toBe(true)
  })
})

describe('blockOf', () => {
  it('knows which addresses are in a block as ipaddr.js does', () => {
    const prefix = fc.nat({ max: 32 })
    fc.assert(
      fc.property(fc.ipV4(), fc.ipV4(), prefix, (one, other, bits) => {
        const mask = ipaddr.IPv4.networkAddressFromCIDR(`${one}/${bits}`)
        const block = blockOf(`${mask}/${bits}`)
        if (block === undefined) throw new Error('no block')
        for (const text of [one, other]) {
          expect(isIn(block, addressBytes(text) ?? new Uint8Array())).toBe(ipaddr.parse(text).match([mask, bits]))
        }
      }),
      { numRuns: 1_000 },
    )
  })

  test.for([
    '10.0.0.1/8',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '10.0.0.0/08',
    '10/8',
    '::/129',
    '::1/64',
    '1.2.3.4/8/8',
    'x/8',
  ])('refuses %s', (text) => expect(blockOf(text)).toBeUndefined())

  it('never has an address of IPv4 in a block of IPv6', () => {
    const everything = blockOf('::/0')
    expect(everything && isIn(everything, Uint8Array.of(1, 2, 3, 4))).toBe(false)
  })
})

describe('exceptions to the table', () => {
  test.for([
    '10.1.2.3/24',
    '10.1.2.0/33',
    'https://a.test',
    'a.test:80',
    'a.test/',
    '*.a.test',
    'a.test.',
    '[::1]',
    'ä.test',
    '127.1',
    '0x7f.0.0.1',
    'a b',
  ])('cannot be %s', (place) => {
    expect(() => webhooks({ allow: [place] })).toThrow(
      /^expected allow\[0\] to be a host, an address or a block such as '10\.1\.2\.0\/24', got /,
    )
    expect(() => webhooks({ deny: ['a.test', place] })).toThrow(/^expected deny\[1\]/)
  })

  test.for([0, 65_536, 1.5, '443', -1])('cannot be the port %j', (port) => {
    expect(() => webhooks({ ports: [443, port as number] })).toThrow(/^expected ports\[1\] to be a port, got /)
  })
})

it('carries the pace of deliveries', () => {
  expect(webhooks().settings).toEqual({
    timeoutMs: 15_000,
    scheduleMs: [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 50_400_000, 72_000_000, 86_400_000],
    concurrency: 20,
    perEndpoint: 4,
    breaker: { failures: 10, pauseMs: 60_000 },
  })
  const settings = { timeoutMs: 1, scheduleMs: [], concurrency: 2, breaker: { failures: 3 } }
  expect(webhooks(settings).settings).toEqual({
    ...settings,
    perEndpoint: 2,
    breaker: { failures: 3, pauseMs: 60_000 },
  })
  expect(() => webhooks({ scheduleMs: [1, -1] })).toThrow(/^expected scheduleMs\[1\] to be a whole number/)
})
