// The endpoints of outgoing webhooks: who gets which events, where, and signed with what.

import { randomBytes } from 'node:crypto'
import { type Clock, describe, expected, HapaxError, nameText, noOthers, numberFrom, text } from '../base/index.ts'
import type { Delivered, Endpoint, EndpointChange, EndpointDestination, StoreEndpoints } from '../contracts/index.ts'
import { MAX_TEXT_BYTES, type OutgoingMessage } from '../message/index.ts'
import { webhookSecret } from '../web/index.ts'
import { auditOf, type By } from './audit.ts'

/** What an endpoint is registered with. */
export interface NewEndpoint {
  /** Where events are sent. */
  readonly url: string
  /** The relay whose events it gets. @default the relay of `createHapax` */
  readonly relay?: string
  /** The types that it wants; a trailing `.*` stands for all that begin so. @default 'all' */
  readonly types?: readonly string[] | 'all'
  /** What deliveries are signed with. @default a new one */
  readonly secret?: string
  /** For people. @default none */
  readonly note?: string
  /** Letters, digits, `_` and `-`. @default `ep_` and random letters */
  readonly id?: string
}

/** An endpoint as people see it: without its secrets. */
export interface ListedEndpoint extends Omit<Endpoint, 'secrets'> {
  /** The end of each secret that deliveries are signed with, and until when. */
  readonly secrets: readonly { readonly hint: string; readonly until: Date | null }[]
}

/** What a receiver said to a test event. */
export interface EndpointTest {
  readonly delivered: boolean
  /** The status of the response; null: there was none. */
  readonly code: number | null
  readonly ms: number
  /** The beginning of the body of the response. */
  readonly answer: string
  /** Why it was not delivered; null: it was. */
  readonly error: string | null
}

/** Who does it, and through what. */
export interface EndpointBy {
  /** Who makes the change, and why, for the audit. */
  readonly by?: By
  /** Checks addresses and sends the test event. @default the destination of a worker of this hapax, if it has one for the relay */
  readonly through?: EndpointDestination
}

/** What the tools for endpoints need. */
interface EndpointsOptions {
  readonly store: StoreEndpoints
  readonly clock: Clock
  /** The relay and the source of `createHapax`. */
  readonly relay: string
  readonly source: string
  readonly mintId: () => string
  /** The destinations of the workers of this hapax, by relay. */
  readonly drivers: ReadonlyMap<string, EndpointDestination>
}

const DAY_MS = 86_400_000

/** The endpoints of outgoing webhooks. All changes are audited. */
export class Endpoints {
  readonly #options: EndpointsOptions

  /** Made by `createHapax`. */
  constructor(options: EndpointsOptions) {
    this.#options = options
  }

  /**
   * Registers an endpoint: it gets what is published from now on. Resolves with its id and its secret, which is not shown again. Rejects
   * with `invalid-option` if its address may not be called.
   */
  async add(endpoint: NewEndpoint, how: EndpointBy = {}): Promise<{ readonly id: string; readonly secret: string }> {
    noOthers('endpoint', endpoint, ['url', 'relay', 'types', 'secret', 'note', 'id'])
    const { by, driver } = this.#how(how, endpoint.relay ?? this.#options.relay)
    const relay = endpoint.relay === undefined ? this.#options.relay : nameText('relay', endpoint.relay)
    const types = typesOption(endpoint.types)
    const note = noteOption(endpoint.note)
    const id = endpoint.id === undefined ? newId() : idOption(endpoint.id)
    const secret = endpoint.secret === undefined ? (driver?.secret() ?? webhookSecret()) : secretOption(endpoint.secret)
    const url = await checkedUrl(endpoint.url, driver)
    const row = { id, relay, url, types, secrets: [{ secret, until: null }], enabled: true, reason: null, note }
    if (!(await this.#options.store.add(row, auditOf('add', by)))) expected('id', 'the id of no other endpoint', id)
    return { id, secret }
  }

  /** Those of one relay, or all of them, by relay and id. */
  async list(relay?: string): Promise<readonly ListedEndpoint[]> {
    const found = await this.#options.store.list(relay === undefined ? undefined : nameText('relay', relay))
    return found.map(({ secrets, ...others }) => ({ ...others, secrets: this.#inUse(secrets).map(hinted) }))
  }

  /**
   * It gets nothing from now on. What waits for it moves to the failed store (`endpoint-disabled`) when it is due; what is published
   * meanwhile is not kept for it. Rejects with `not-found`, as all that follow.
   */
  async disable(id: string, reason: string, how: EndpointBy = {}): Promise<void> {
    const { by } = this.#how(how)
    await this.#change(id, { enabled: false, reason: nameText('reason', reason, MAX_REASON) }, by)
  }

  /** It gets what is published from now on; `failed.retry` delivers what has failed meanwhile. */
  async enable(id: string, how: EndpointBy = {}): Promise<void> {
    await this.#change(id, { enabled: true, reason: null }, this.#how(how).by)
  }

  /** Changes what is named. What waits goes to the new address. */
  async change(
    id: string,
    change: Partial<Pick<NewEndpoint, 'url' | 'types' | 'note'>>,
    how: EndpointBy = {},
  ): Promise<void> {
    noOthers('change', change, ['url', 'types', 'note'])
    if (Object.keys(change).length === 0) expected('change', 'something to change', 'nothing')
    const { relay } = await this.#endpoint(id)
    const { by, driver } = this.#how(how, relay)
    const url = change.url === undefined ? {} : { url: await checkedUrl(change.url, driver) }
    const types = change.types === undefined ? {} : { types: typesOption(change.types) }
    const note = change.note === undefined ? {} : { note: noteOption(change.note) }
    await this.#change(id, { ...url, ...types, ...note }, by)
  }

  /**
   * Gives it a new secret, `secret` or a random one. Deliveries are signed with the old one as well for `graceMs`, 24 hours unless it says
   * otherwise. The key of a pair needs `secret`: a random secret would be none that the receiver's public key fits.
   */
  async rotate(
    id: string,
    options: EndpointBy & { readonly graceMs?: number; readonly secret?: string } = {},
  ): Promise<{ readonly secret: string; readonly until: Date }> {
    const { graceMs: given, secret: own, ...how } = options
    const graceMs = numberFrom('graceMs', 0, given, DAY_MS)
    const { relay, secrets } = await this.#endpoint(id)
    const { by, driver } = this.#how(how, relay)
    if (own === undefined && secrets[0]?.secret.startsWith('whsk_')) throw keyNeeded(id)
    const secret = own === undefined ? (driver?.secret() ?? webhookSecret()) : secretOption(own)
    const until = new Date(this.#options.clock.now() + graceMs)
    const old = this.#inUse(secrets).map((each) => ({ ...each, until: each.until ?? until }))
    await this.#change(id, { secrets: [{ secret, until: null }, ...(graceMs === 0 ? [] : old)] }, by)
    return { secret, until }
  }

  /** Forgets it. What waits for it moves to the failed store (`endpoint-removed`) when it is due. */
  async remove(id: string, how: EndpointBy = {}): Promise<void> {
    const { by } = this.#how(how)
    if (!(await this.#options.store.remove(text('id', id), auditOf('remove', by)))) throw notFound(id)
  }

  /** Sends an event of the type `hapax.test` at once, past the outbox and whatever waits, and resolves with what the receiver said. */
  async test(
    id: string,
    how: Pick<EndpointBy, 'through'> & { readonly signal?: AbortSignal } = {},
  ): Promise<EndpointTest> {
    const { signal = new AbortController().signal, ...others } = how
    const endpoint = await this.#endpoint(id)
    const { driver } = this.#how(others, endpoint.relay)
    if (driver === undefined) throw noDriver(endpoint.relay)
    const { clock } = this.#options
    const began = clock.monotonic()
    const delivered = await driver.deliver(endpoint, this.#testEvent(id), signal)
    return testOf(delivered, Math.round(clock.monotonic() - began))
  }

  #testEvent(endpoint: string): OutgoingMessage {
    const { clock, mintId, source } = this.#options
    const time = new Date(clock.now()).toISOString()
    const data = Buffer.from(JSON.stringify({ endpoint, test: true }))
    return { id: mintId(), source, type: 'hapax.test', time, datacontenttype: 'application/json', data }
  }

  /** Secrets of which the time has passed are of no use to anybody. */
  #inUse(secrets: Endpoint['secrets']): Endpoint['secrets'] {
    const now = this.#options.clock.now()
    return secrets.filter(({ until }) => until === null || until.getTime() > now)
  }

  #how(how: EndpointBy, relay = ''): { by: By | undefined; driver: EndpointDestination | undefined } {
    noOthers('options', how, ['by', 'through'])
    const { by, through } = how
    if (through !== undefined && through.kind !== 'endpoints') expected('through', 'webhooks()', through)
    return { by, driver: through ?? this.#options.drivers.get(relay) }
  }

  async #change(id: string, change: EndpointChange, by: By | undefined): Promise<void> {
    if (!(await this.#options.store.change(text('id', id), change, auditOf('change', by)))) throw notFound(id)
  }

  async #endpoint(id: string): Promise<Endpoint> {
    text('id', id)
    const found = (await this.#options.store.list()).find((each) => each.id === id)
    if (found === undefined) throw notFound(id)
    return found
  }
}

const MAX_REASON = 500
const MAX_NOTE = 1_000
const MAX_TYPES = 1_000

function newId(): string {
  return `ep_${BigInt(`0x${randomBytes(16).toString('hex')}`).toString(36)}`
}

/** The id is a part of the source and of the key of every message that waits for it. */
function idOption(id: string): string {
  const fine = typeof id === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(id)
  return fine ? id : expected('id', 'at most 64 letters, digits, _ and -', id)
}

function noteOption(note: string | undefined): string | null {
  return note === undefined ? null : text('note', note, MAX_NOTE)
}

function typesOption(types: NewEndpoint['types'] = 'all'): Endpoint['types'] {
  if (types === 'all') return types
  if (!Array.isArray(types) || types.length === 0 || types.length > MAX_TYPES) {
    expected('types', `'all', or a list of types, for example ['order.*']`, types)
  }
  for (const [index, type] of types.entries()) {
    text(`types[${index}]`, type, MAX_TEXT_BYTES)
    if (/\*(?!$)|(?<!\.)\*$|^\.\*$/.test(type)) expected(`types[${index}]`, `a type, or one that ends in '.*'`, type)
  }
  return [...new Set(types)]
}

/** A value that is wrong is not shown: it may be half of a secret. One that deliveries cannot be signed with would be noticed too late. */
function secretOption(secret: string): string {
  const [, prefix, encoded = ''] = /^(whsec_|whsk_)([A-Za-z0-9+/]+={0,2})$/.exec(String(secret)) ?? []
  const bytes = Buffer.from(encoded, 'base64')
  const { length } = bytes
  const whole = bytes.toString('base64').replace(/=+$/, '') === encoded.replace(/=+$/, '')
  const fits = prefix === 'whsk_' ? length === 32 || length === 64 : length >= 24 && length <= 64
  if (prefix === undefined || !whole || !fits) {
    const what = 'whsec_ and 24 to 64 bytes in base64, or whsk_ and a key of 32 or 64 bytes in base64'
    throw new HapaxError('invalid-option', `expected secret to be ${what}`, { fields: { option: 'secret' } })
  }
  return secret
}

/** Without a driver only what can be seen of an address is checked; each delivery is checked in any case. */
async function checkedUrl(url: string, driver: EndpointDestination | undefined): Promise<string> {
  const parsed = URL.parse(text('url', url, MAX_TEXT_BYTES))
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    expected('url', 'the address of an endpoint, https://…', url)
  if (parsed.username !== '' || parsed.password !== '') expected('url', 'an address without a password', '***')
  const objection = await driver?.check(url)
  if (objection === undefined) return url
  const what = `expected url to be an address that may be called, got ${describe(url)}: ${objection}`
  throw new HapaxError('invalid-option', what, { fields: { option: 'url' } })
}

function hinted({ secret, until }: Endpoint['secrets'][number]): { hint: string; until: Date | null } {
  const prefix = /^[a-z]+_/.exec(secret)?.[0] ?? ''
  return { hint: `${prefix}…${secret.replace(/=+$/, '').slice(-4)}`, until }
}

function testOf(delivered: Delivered, ms: number): EndpointTest {
  switch (delivered.status) {
    case 'delivered':
      return { delivered: true, code: delivered.code, ms, answer: delivered.answer, error: null }
    case 'gone':
      return { delivered: false, code: 410, ms, answer: delivered.answer, error: 'the receiver wants nothing any more' }
    case 'failed': {
      const { code = null, answer, error } = delivered
      return { delivered: false, code, ms, answer, error: error.message }
    }
    case 'refused':
      return { delivered: false, code: null, ms, answer: '', error: delivered.error.message }
  }
}

function notFound(id: string): HapaxError {
  return new HapaxError('not-found', `there is no endpoint ${id}`, { fields: { endpoint: id } })
}

function keyNeeded(id: string): HapaxError {
  const what = `expected secret to be given, because the endpoint ${id} has the private key of a pair (whsk_), which cannot be made here`
  return new HapaxError('invalid-option', what, { fields: { option: 'secret' } })
}

function noDriver(relay: string): HapaxError {
  const what = `expected a worker of this hapax to have webhooks() as the relay ${relay}, or the option through, got neither`
  return new HapaxError('invalid-option', what, { fields: { option: 'through' } })
}
