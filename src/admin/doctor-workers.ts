// What `doctor` finds out about workers: dead and stuck ones, and messages that no worker serves.

import { OTHERS } from '../consumer/index.ts'
import type { Finding, Share, StoreStatus, StoreWorkers } from '../contracts/index.ts'
import { ALL_LANES, isDeliveries, LANES, lanesOf } from '../message/index.ts'
import { isScope } from '../requests/index.ts'
import { namesakeText, type Serves, servesOf } from '../worker/index.ts'

/** A live worker, and what it serves. */
interface Live {
  readonly id: string
  readonly name: string
  readonly serves: Serves
}

/** A type that a consumer has subscribed to. */
interface Subscription {
  readonly consumer: string
  readonly type: string
}

/** Checks that a live worker serves every message that waits or may come. */
export function workerFindings(status: StoreStatus, subscriptions: readonly Subscription[]): readonly Finding[] {
  const { workers, consumers, relays } = status
  const live = workers
    .filter(({ alive }) => alive)
    .map((worker): Live => ({ id: worker.id, name: worker.name, serves: servesOf(worker) }))
  const dead = workers.filter(({ alive }) => !alive).map(deadFinding)
  if (live.length > 0) {
    const names = new Set([
      ...consumers.map(({ consumer }) => consumer),
      ...subscriptions.map(({ consumer }) => consumer),
    ])
    return [
      ...dead,
      ok(`${live.length} alive`),
      ...live.filter(({ serves }) => serves.stuck).map(stuckFinding),
      ...live.flatMap(failingFindings),
      ...[...names].sort().flatMap((name) => consumerFindings(name, status, subscriptions, live)),
      ...relays.flatMap((relay) => relayFindings(relay, live)),
    ]
  }
  const requests = consumers.filter(({ consumer }) => isScope(consumer)).flatMap(unfinished)
  const others = consumers.filter(({ consumer }) => !isScope(consumer))
  const waits = others.some((each) => each.waiting + each.retrying > 0) || relays.some(({ waiting }) => waiting > 0)
  if (!waits) return [...dead, ...(requests.length > 0 ? requests : [ok('none is alive, and nothing waits')])]
  const advice = 'Start a worker: hapax.worker(…).start(), npx hapax work, or for an outbox npx hapax relay.'
  return [
    ...dead,
    ...requests,
    { check: 'workers', level: 'error', message: 'messages wait, and no worker is alive', advice },
  ]
}

/** A row that no worker has buried yet: normal for a few seconds after a crash. */
/** Messages that wait in an inbox although no process of their consumer has ever handled their type: a retry puts them there. */
export async function strandedFindings(
  store: Pick<StoreWorkers, 'look'>,
  { workers, consumers }: StoreStatus,
  subscriptions: readonly Subscription[],
): Promise<readonly Finding[]> {
  const live = workers.filter(({ alive }) => alive).map(servesOf)
  const findings: Finding[] = []
  for (const { consumer, waiting, retrying } of consumers) {
    const serving = live.flatMap((serves) => serves.consumers.get(consumer) ?? [])
    // Without a worker there is another finding, and one with a handler of unknown types takes them.
    if (waiting + retrying === 0 || serving.length === 0 || serving.includes(OTHERS)) continue
    const [look] = await store.look([unrecorded(consumer)])
    const known = new Set(subscriptions.filter((each) => each.consumer === consumer).map(({ type }) => type))
    const types = new Set(look?.entries.filter(({ type, held }) => !held && !known.has(type)).map(({ type }) => type))
    if (types.size > 0) findings.push(strandedFinding(consumer, [...types].sort()))
  }
  return findings
}

/** Messages without a key that wait in inboxes of consumers with `order`. */
export async function keylessFindings(
  store: Pick<StoreWorkers, 'look'>,
  { consumers }: StoreStatus,
  subscriptions: readonly (Subscription & { readonly ordered: boolean })[],
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  for (const { consumer, waiting, retrying } of consumers) {
    const its = subscriptions.filter((each) => each.consumer === consumer)
    if (waiting + retrying === 0 || isDeliveries(consumer) || !its.some(({ ordered }) => ordered)) continue
    const types = [...its.map(({ type }) => type), OTHERS]
    const [look] = await store.look([{ ...unrecorded(consumer), types }])
    const keyless = look?.entries.filter(({ key }) => key === null).length ?? 0
    if (keyless > 0) findings.push(keylessFinding(consumer, keyless))
  }
  return findings
}

function keylessFinding(consumer: string, count: number): Finding {
  return {
    check: 'keys',
    level: 'warning',
    message: `${messages(count)} without a key ${count === 1 ? 'waits' : 'wait'} in the inbox of consumer ${consumer}, which keeps order`,
    advice:
      "They are not ordered. Give their types a key (defineMessage(type, { key })), have senders set one (partitionkey), or locate it with 'key' in .from().",
  }
}

/** With order, also types that are recorded are among the entries. */
function unrecorded(consumer: string): Share {
  return { table: 'inbox', scope: consumer, types: [OTHERS], lanes: ALL_LANES, limit: SAMPLE, after: new Map() }
}

const SAMPLE = 1_000

function strandedFinding(consumer: string, types: readonly string[]): Finding {
  return {
    check: 'workers',
    level: 'error',
    message: `messages of ${types.join(', ')} wait in the inbox of the consumer ${consumer}, and no worker of it has ever handled that`,
    advice:
      'They wait until a worker handles the type, by name or with the option unknown; with order, later messages of their keys wait behind them.',
  }
}

function deadFinding({ name, silentMs, inHand }: StoreStatus['workers'][number]): Finding {
  const silent = `the worker ${name} has not been heard for ${Math.round(silentMs / 1000)} s`
  return {
    check: 'workers',
    level: 'warning',
    message: `${silent} and has ${messages(inHand)} in hand`,
    advice: 'A live worker takes over what it had. If it stays in this list, no worker is running.',
  }
}

/** Relays whose destination one worker cannot reach, although others may. */
function failingFindings({ name, serves }: Live): readonly Finding[] {
  return [...serves.failing].map(([relay, reason]) => ({
    check: 'workers',
    level: 'warning',
    message: `the worker ${name} cannot reach the destination of the relay ${relay}: ${reason}`,
    advice: 'Look at its log (relay-down), and at the network between it and the broker. It tries again by itself.',
  }))
}

/** A worker whose heartbeats come through while its handlers get no connection. */
function stuckFinding({ name }: Live): Finding {
  return {
    check: 'workers',
    level: 'error',
    message: `the worker ${name} is alive, but its handlers get no connection; it has left its messages to others`,
    advice:
      'All connections of its pool are in use: look for clients that are not released, and for transactions that are left open. The worker recovers by itself.',
  }
}

/** Whether live workers serve a consumer, all of its types, and share its lanes. */
function consumerFindings(
  name: string,
  { consumers }: StoreStatus,
  subscriptions: readonly Subscription[],
  live: readonly Live[],
): readonly Finding[] {
  const found = consumers.find(({ consumer }) => consumer === name)
  const { waiting = 0, retrying = 0 } = found ?? {}
  const types = subscriptions.filter(({ consumer }) => consumer === name).map(({ type }) => type)
  const all = live.filter(({ serves }) => serves.consumers.has(name))
  // Stuck workers have lanes only if there is no other worker.
  const able = all.filter(({ serves }) => !serves.stuck)
  const serving = able.length > 0 ? able : all
  if (serving.length === 0 && isScope(name)) return found === undefined ? [] : unfinished(found)
  if (serving.length === 0) return unserved(name, waiting + retrying, types.length > 0)
  const handles = ({ serves }: Live, type: string): boolean => serves.consumers.get(name)?.includes(type) ?? false
  const orphans = types.filter((type) => !serving.some((worker) => handles(worker, type)))
  const shares = types.map((type) => serving.filter((worker) => handles(worker, type)))
  return [
    ...namesakes(name, all),
    served(name, shares.length > orphans.length ? shares : [serving], serving.length),
    ...orphaned(name, orphans),
  ]
}

/** Applications of different sources that use one consumer name. Their types prove nothing: versions of one application differ too. */
function namesakes(name: string, live: readonly Live[]): readonly Finding[] {
  const sources = [...new Set(live.flatMap(({ serves }) => serves.source ?? []))].sort()
  if (sources.length < 2) return []
  return [
    {
      check: 'workers',
      level: 'warning',
      message: namesakeText(name, sources),
      advice: 'Give one of them another consumer name. If they are one application, give them the same source.',
    },
  ]
}

/** A consumer without a live worker: an error if messages wait, a warning if they may come. */
function unserved(name: string, open: number, subscribed: boolean): readonly Finding[] {
  const forget = `if it is not deployed any more, npx hapax consumers remove ${name}`
  if (open > 0) {
    return [
      {
        check: 'workers',
        level: 'error',
        message: `${messages(open)} of the consumer ${name} ${open === 1 ? 'waits' : 'wait'}, and no live worker serves it`,
        advice: `Start a worker that consumes it${subscribed ? `; ${forget} stops new messages` : ''}.`,
      },
    ]
  }
  if (!subscribed) return []
  return [
    {
      check: 'workers',
      level: 'warning',
      message: `no live worker serves the consumer ${name}; nothing waits for it yet`,
      advice: `Start a worker that consumes it; ${forget}.`,
    },
  ]
}

/** Requests of which some are due, so that no process works on them. A request needs no worker: its client may send it again. */
function unfinished({ consumer, waiting, retrying, oldestAt }: StoreStatus['consumers'][number]): readonly Finding[] {
  if (oldestAt === null) return []
  const open = waiting + retrying
  const which = open === 1 ? '1 request' : `${open} requests`
  return [
    {
      check: 'workers',
      level: 'warning',
      message: `${which} of ${consumer} ${open === 1 ? 'is' : 'are'} not finished, and no live worker serves it`,
      advice:
        'They go on when their clients send them again. To have them finished in any case, start a worker that consumes it.',
    },
  ]
}

/** Types that are still subscribed although no live worker handles them, as after a deployment that dropped a handler. */
function orphaned(name: string, types: readonly string[]): readonly Finding[] {
  if (types.length === 0) return []
  return [
    {
      check: 'workers',
      level: 'warning',
      message: `no live worker of the consumer ${name} handles ${types.join(', ')}, which it has subscribed to`,
      advice:
        'Such messages wait until a worker handles the type. If a deployment has dropped the type for good: stop the workers, run npx hapax consumers remove, and start them again; also remove what still delivers it, such as the binding of a queue.',
    },
  ]
}

/** Whether a live worker serves a relay that has messages, and reaches its destination. */
function relayFindings({ relay, waiting }: StoreStatus['relays'][number], live: readonly Live[]): readonly Finding[] {
  const serving = live.filter(({ serves }) => serves.relays.includes(relay))
  if (waiting > 0 && serving.length > 0 && serving.every(({ serves }) => serves.missing.includes(relay))) {
    return [unreached(relay, waiting)]
  }
  if (serving.length > 0) return [served(`relay ${relay}`, [serving], serving.length)]
  if (waiting === 0) return []
  return [
    {
      check: 'workers',
      level: 'error',
      message: `${messages(waiting)} of the relay ${relay} ${waiting === 1 ? 'waits' : 'wait'}, and no live worker serves it`,
      advice: `Start a worker with this relay, or npx hapax relay --relay ${relay}.`,
    },
  ]
}

function unreached(relay: string, waiting: number): Finding {
  return {
    check: 'workers',
    level: 'error',
    message: `${messages(waiting)} of the relay ${relay} ${waiting === 1 ? 'waits' : 'wait'}, and no live worker reaches its destination`,
    advice:
      'Check that the broker is running, and the network between it and the workers. They try again by themselves.',
  }
}

/** How many workers share the lanes, and how evenly. Each share has the workers that handle one type. */
function served(name: string, shares: readonly (readonly Live[])[], workers: number): Finding {
  const sizes = shares.flatMap((share) => {
    const ids = share.map(({ id }) => id)
    return ids.map((id) => lanesOf(id, ids).length)
  })
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)]
  const each = least === most ? `${least}` : `${least} to ${most}`
  return {
    ...ok(
      `${name} is served by ${workers === 1 ? '1 worker' : `${workers} workers`}, each with ${each} of ${LANES} lanes`,
    ),
    check: 'lanes',
  }
}

function messages(count: number): string {
  return count === 1 ? '1 message' : `${count} messages`
}

function ok(message: string): Finding {
  return { check: 'workers', level: 'ok', message, advice: '' }
}
