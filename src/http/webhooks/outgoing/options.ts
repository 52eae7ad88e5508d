import { domainToASCII } from 'node:url'
import {
  describe,
  expected,
  flag,
  noOthers,
  oneOf,
  positiveInteger,
  spanMs,
  text,
  version,
} from '../../../base/index.ts'
import type { DeliverySettings } from '../../../contracts/index.ts'
import { blockOf } from './addresses.ts'
import type { BodyFormat } from './request.ts'
import type { Places, Rules } from './target.ts'

/** Options of outgoing webhooks. */
export interface WebhooksOptions {
  /** What a delivery contains: the envelope `{ type, timestamp, data }`, or the data alone, as a CloudEvent. @default 'envelope' */
  readonly body?: BodyFormat
  /** How long one delivery may take, from asking for the addresses of the host to the end of the response. @default 15_000 */
  readonly timeoutMs?: number
  /** The pauses after the first, the second, … failed attempt. @default 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h */
  readonly scheduleMs?: readonly number[]
  /** How many deliveries run at once in a process. @default 20 */
  readonly concurrency?: number
  /** How many of them go to the same endpoint at once. @default 4 */
  readonly perEndpoint?: number
  /** An endpoint that failed so often in a row is left alone for a while. @default { failures: 10, pauseMs: 60_000 } */
  readonly breaker?: { readonly failures?: number; readonly pauseMs?: number }
  /** Hosts, addresses and blocks that may be called although they are not on the internet: `['10.1.2.0/24', 'hooks.internal']`. @default none */
  readonly allow?: readonly string[]
  /** Hosts, addresses and blocks that may not be called although they are on the internet: your own, for example. @default none */
  readonly deny?: readonly string[]
  /** Allows `http://`: what is sent can then be read and changed on its way. @default false */
  readonly allowHttp?: boolean
  /** The ports that may be called. @default 443, and 80 with allowHttp */
  readonly ports?: readonly number[] | 'all'
  /** Certificates of authorities that are trusted beside the usual ones, as PEM. @default none */
  readonly ca?: string | readonly string[]
  /** @default 'hapax/' and its version */
  readonly userAgent?: string
}

/** Options with every default filled in. */
export interface WebhooksSettings {
  readonly rules: Rules
  readonly ca: readonly string[]
  readonly body: BodyFormat
  readonly userAgent: string
  readonly delivery: DeliverySettings
}

const KNOWN = [
  'body',
  'timeoutMs',
  'scheduleMs',
  'concurrency',
  'perEndpoint',
  'breaker',
  'allow',
  'deny',
  'allowHttp',
  'ports',
  'ca',
  'userAgent',
] as const satisfies readonly (keyof WebhooksOptions)[]

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** The example of the specification: 75 hours and 35 minutes. */
const SCHEDULE = [5_000, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]

/** Checks the options of `webhooks()` and fills in the defaults. */
export function webhooksSettings(options: WebhooksOptions): WebhooksSettings {
  noOthers('options of webhooks', options, KNOWN)
  const allowHttp = flag('allowHttp', options.allowHttp, false)
  return {
    rules: {
      allowHttp,
      ports: portsOption(options.ports, allowHttp),
      allow: placesOption('allow', options.allow),
      deny: placesOption('deny', options.deny),
    },
    ca: caOption(options.ca),
    body: oneOf('body', ['envelope', 'data'], options.body, 'envelope'),
    userAgent: agentOption(options.userAgent),
    delivery: deliverySettings(options),
  }
}

function deliverySettings(options: WebhooksOptions): DeliverySettings {
  const { breaker = {} } = options
  noOthers('breaker', breaker, ['failures', 'pauseMs'])
  const concurrency = positiveInteger('concurrency', options.concurrency, 20)
  return {
    timeoutMs: positiveInteger('timeoutMs', options.timeoutMs, 15_000),
    scheduleMs: scheduleOption(options.scheduleMs),
    concurrency,
    perEndpoint: positiveInteger('perEndpoint', options.perEndpoint, Math.min(4, concurrency)),
    breaker: {
      failures: positiveInteger('breaker.failures', breaker.failures, 10),
      pauseMs: positiveInteger('breaker.pauseMs', breaker.pauseMs, MINUTE),
    },
  }
}

function scheduleOption(given: readonly number[] = SCHEDULE): readonly number[] {
  if (!Array.isArray(given) || given.length > 100) expected('scheduleMs', 'a list of at most 100 pauses', given)
  return given.map((pauseMs, index) => spanMs(`scheduleMs[${index}]`, pauseMs))
}

function portsOption(given: WebhooksOptions['ports'], allowHttp: boolean): Rules['ports'] {
  if (given === undefined) return allowHttp ? [443, 80] : [443]
  if (given === 'all') return given
  const isPort = (port: unknown): boolean => Number.isInteger(port) && Number(port) >= 1 && Number(port) <= 65_535
  if (!Array.isArray(given) || given.length === 0) expected('ports', "a list of ports, or 'all'", given)
  const wrong = given.findIndex((port) => !isPort(port))
  if (wrong >= 0) expected(`ports[${wrong}]`, 'a port', given[wrong])
  return [...given]
}

function placesOption(name: string, given: readonly string[] = []): Places {
  if (!Array.isArray(given)) expected(name, "a list such as ['10.1.2.0/24', 'hooks.internal']", given)
  const hosts = new Set<string>()
  const blocks = given.flatMap((place: unknown, index) => {
    const block = typeof place === 'string' ? blockOf(place) : undefined
    if (block !== undefined) return [block]
    if (!isHost(place)) expected(`${name}[${index}]`, "a host, an address or a block such as '10.1.2.0/24'", place)
    hosts.add(place.toLowerCase())
    return []
  })
  return { hosts, blocks }
}

/** A host as it stands in a URL that was parsed, but for upper case. */
function isHost(value: unknown): value is string {
  if (typeof value !== 'string' || !/^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/i.test(value)) return false
  return domainToASCII(value) === value.toLowerCase()
}

function caOption(given: WebhooksOptions['ca'] = []): readonly string[] {
  const all = typeof given === 'string' ? [given] : given
  const isPem = (each: unknown): boolean => typeof each === 'string' && each.includes('-----BEGIN CERTIFICATE-----')
  if (!Array.isArray(all) || !all.every(isPem)) {
    expected('ca', 'a certificate in PEM, or a list of such', Array.isArray(given) ? given : describe(typeof given))
  }
  return all
}

function agentOption(given: string | undefined): string {
  if (given === undefined) return `hapax/${version()}`
  if (!/^[!-~]+(?: [!-~]+)*$/.test(text('userAgent', given))) {
    expected('userAgent', 'printable ASCII characters', given)
  }
  return given
}
