import { asError, isHapaxError, messageOf } from '../base/index.ts'
import type { ClaimStore, Finding, Store, StoreKeys, StoreSchema, StoreStatus } from '../contracts/index.ts'
import { workerFindings } from './doctor-workers.ts'

/** A message that waits longer than this in the outbox is worth a look. */
const OUTBOX_MS = 5 * 60_000

/** The parts of a store that tell how it is. */
type Looked = Pick<Store<never>, 'schema' | 'admin' | 'subscriptions' | 'keys'>

/** Looks at the store and at what the workers made of it. A look that fails is a finding as well. */
export async function doctor(store: Looked, now: () => number): Promise<readonly Finding[]> {
  const schema = await attempt('schema', () => schemaFindings(store.schema))
  if (schema.some(({ level }) => level === 'error')) return schema
  return [
    ...schema,
    ...(await attempt('store', () => store.admin.checkup())),
    ...(await attempt('status', async () => {
      const status = await store.admin.status()
      return [...workerFindings(status, await store.subscriptions.list()), ...statusFindings(status, now())]
    })),
    ...(await attempt('held keys', () => keyFindings(store.keys))),
  ]
}

/** The same for a store that only knows leases. */
export async function leaseDoctor(store: ClaimStore): Promise<readonly Finding[]> {
  const findings = await attempt('store', () => store.admin.checkup())
  return [...findings, ...(await attempt('failed', async () => failedFinding(await store.failed.count({}))))]
}

async function attempt(check: string, look: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await look()
  } catch (error) {
    return [{ check, level: 'error', message: messageOf(asError(error)), advice: adviceOn(error) }]
  }
}

function adviceOn(error: unknown): string {
  if (isHapaxError(error, 'store-unavailable')) return 'See to it that the database can be reached, and run this again.'
  if (isHapaxError(error, 'schema-drift')) return 'Use the version of hapax that made the schema, or another schema.'
  if (isDenied(error)) return 'Run this as the user of hapax, or grant this user what it may not do.'
  return 'Run this again; if it stays, the message says what the database did not like.'
}

/** Whether the database said that this user may not. */
function isDenied(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^(42501|EACCES|EPERM|ER_\w*ACCESS_DENIED)/.test(code)
}

async function schemaFindings(schema: StoreSchema): Promise<readonly Finding[]> {
  const missing = (await schema.migrations()).filter(({ applied }) => !applied)
  if (missing.length === 0) return [ok('schema', 'every migration is applied')]
  const names = missing.map(({ version, name }) => `${version} (${name})`).join(', ')
  return [
    {
      check: 'schema',
      level: 'error',
      message: `these migrations are missing: ${names}`,
      advice: 'Run npx hapax migrate.',
    },
  ]
}

function statusFindings(status: StoreStatus, now: number): readonly Finding[] {
  return [...status.relays.flatMap((relay) => outboxFinding(relay, now)), ...failed(status)]
}

function outboxFinding({ relay, oldestAt }: StoreStatus['relays'][number], now: number): readonly Finding[] {
  const waitedMs = oldestAt === null ? 0 : now - oldestAt.getTime()
  if (waitedMs <= OUTBOX_MS) return [ok('outbox', `the relay ${relay} keeps up`)]
  return [
    {
      check: 'outbox',
      level: 'warning',
      message: `the oldest message of the relay ${relay} has waited for ${seconds(waitedMs)}`,
      advice: 'Look at the workers of this relay, its broker, and hapax keys list.',
    },
  ]
}

function failed({ consumers, relays }: StoreStatus): readonly Finding[] {
  return failedFinding([...consumers, ...relays].reduce((sum, each) => sum + each.failed, 0))
}

function failedFinding(count: number): readonly Finding[] {
  if (count === 0) return [ok('failed', 'no message waits for a decision')]
  return [
    {
      check: 'failed',
      level: 'warning',
      message: count === 1 ? '1 failed message waits for a decision' : `${count} failed messages wait for a decision`,
      advice: 'Look at hapax failed list, then retry, edit or discard them.',
    },
  ]
}

async function keyFindings(keys: StoreKeys): Promise<readonly Finding[]> {
  const held = await keys.list(1_000)
  if (held.length === 0) return [ok('held keys', 'no key waits behind a failed message')]
  const behind = held.reduce((sum, { waiting }) => sum + waiting, 0)
  const [longest] = held
  return [
    {
      check: 'held keys',
      level: 'warning',
      message: `${held.length} keys wait behind a failed message, ${behind} messages in all; ${longest?.key} of ${longest?.scope} since ${longest?.heldAt.toISOString()}`,
      advice: 'Retry, edit or discard the failed message, or let the key go on: hapax keys list, hapax keys release.',
    },
  ]
}

function ok(check: string, message: string): Finding {
  return { check, level: 'ok', message, advice: '' }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`
}
