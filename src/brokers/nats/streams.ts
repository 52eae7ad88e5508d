import type { JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream'
import { fieldOf, HapaxError } from '../../base/index.ts'
import { API, apiCode, brokerError } from './errors.ts'
import type { StreamPlan } from './options.ts'

/** Creates the stream, or compares the existing one, as the plan says. Rejects with a HapaxError. */
export async function ensureStream(manager: JetStreamManager, plan: StreamPlan): Promise<void> {
  if (plan.declare === 'none') return
  const found = await findStream(manager, plan.name)
  if (found !== undefined) {
    compare(plan, found)
    return refuseWithoutLeader(found)
  }
  if (plan.declare === 'check') throw mismatch(plan.name, 'to exist', 'no such stream')
  await made(`stream ${plan.name} cannot be made`, () => manager.streams.add(configOf(plan)))
}

/** A server that is cut off from the others goes on describing a stream, but no longer takes messages for it. Another one may. */
function refuseWithoutLeader({ config, cluster }: StreamInfo): void {
  if (cluster === undefined || cluster.leader || config.num_replicas === 1) return
  throw new HapaxError('broker-unavailable', `stream ${config.name} has no leader that this server knows`)
}

/** The stream of this name; undefined if there is none. */
export async function findStream(manager: JetStreamManager, name: string): Promise<StreamInfo | undefined> {
  return found(`stream ${name}`, API.streamNotFound, () => manager.streams.info(name))
}

/** The result of a lookup; undefined if the server answers with the code `absent`. */
export async function found<T>(what: string, absent: number, ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (apiCode(error) === absent) return undefined
    throw brokerError(`${what} cannot be looked at`, error)
  }
}

/** Runs a request that changes or reads something on the server; its errors become HapaxErrors. */
export async function made<T>(what: string, make: () => Promise<T>): Promise<T> {
  try {
    return await make()
  } catch (error) {
    throw brokerError(what, error)
  }
}

/** The error for a stream or consumer that differs from what was asked for. */
export function mismatch(what: string, expectation: string, got: unknown): HapaxError {
  return new HapaxError('topology-mismatch', `expected ${what} ${expectation}, got ${String(got)}`)
}

type Config = Parameters<JetStreamManager['streams']['add']>[0]

function configOf(plan: StreamPlan): Config {
  const { name, storage = 'file', replicas = 1, maxAgeMs = 0, maxBytes = -1 } = plan
  return {
    name,
    subjects: [...subjectsOf(plan)],
    retention: 'limits',
    storage,
    num_replicas: replicas,
    max_age: nanos(maxAgeMs),
    max_bytes: maxBytes,
    // A full stream must refuse new messages, not drop old ones that were never read.
    discard: 'new',
    duplicate_window: nanos(duplicateWindow(plan)),
  }
}

/** The server refuses a window that is longer than messages are kept. */
function duplicateWindow({ duplicateWindowMs = 120_000, maxAgeMs = duplicateWindowMs }: StreamPlan): number {
  return Math.min(duplicateWindowMs, maxAgeMs)
}

function subjectsOf({ subjects, prefix }: StreamPlan): readonly string[] {
  return subjects ?? [`${prefix}.>`]
}

function compare(plan: StreamPlan, { config }: StreamInfo): void {
  const name = `stream ${plan.name}`
  // With a custom `subject` function the needed subjects are not known.
  const needed = plan.subjects ?? (plan.subject === undefined ? subjectsOf(plan) : [])
  const absent = needed.find((subject) => !config.subjects?.some((each) => covers(each, subject)))
  if (absent !== undefined) throw mismatch(name, `to take ${absent}`, config.subjects?.join(', ') || 'no subjects')
  const wanted: Partial<Record<keyof StreamConfig, unknown>> = {
    storage: plan.storage,
    num_replicas: plan.replicas,
    max_age: plan.maxAgeMs && nanos(plan.maxAgeMs),
    max_bytes: plan.maxBytes,
    duplicate_window: plan.duplicateWindowMs && nanos(plan.duplicateWindowMs),
  }
  compareAll(name, wanted, config)
  if (config.no_ack) throw mismatch(name, 'to confirm messages', 'no_ack')
  if (config.sealed) throw mismatch(name, 'to take messages', 'sealed')
}

/** Throws `topology-mismatch` for the first setting that was asked for and differs. */
export function compareAll(what: string, wanted: object, config: object): void {
  for (const [name, value] of Object.entries(wanted)) {
    const is = fieldOf(config, name)
    if (value !== undefined && value !== is) throw mismatch(what, `to have ${name} ${value}`, is)
  }
}

/** Whether every subject of the second pattern is one of the first. */
function covers(pattern: string, subject: string): boolean {
  const [wide, narrow] = [pattern.split('.'), subject.split('.')]
  for (const [index, token] of wide.entries()) {
    const other = narrow[index]
    if (token === '>') return other !== undefined
    if (other === undefined || other === '>' || (token !== '*' && token !== other)) return false
  }
  return wide.length === narrow.length
}

/** The server counts time in nanoseconds. */
export function nanos(ms: number): number {
  return ms * 1_000_000
}

/** Nanoseconds of the server as milliseconds. */
export function millis(nanoseconds: number): number {
  return nanoseconds / 1_000_000
}

/** One line for people, as `topology()` shows it. */
export function describeStream(plan: StreamPlan): string {
  const { name, storage = 'file', replicas = 1, maxAgeMs, maxBytes, declare } = plan
  const kept = maxAgeMs === undefined ? 'kept for ever' : `kept for ${maxAgeMs} ms`
  const most = maxBytes === undefined ? '' : `, at most ${maxBytes} bytes`
  const copies = replicas === 1 ? '1 replica' : `${replicas} replicas`
  return `stream ${name}: ${subjectsOf(plan).join(', ')}; ${storage}, ${copies}, ${kept}${most} (${declare})`
}
