import { seeded } from '../support/seeded.ts'
import type { ChaosPlan } from './chaos.ts'
import type { Expected } from './checker.ts'

/** What the handler does with a message; `times` counts its calls in all processes. */
export type Behaviour =
  | { readonly kind: 'ok' }
  /** Throws so many times, then succeeds. */
  | { readonly kind: 'fails'; readonly times: number }
  /** A unique key of the application refuses it so many times. */
  | { readonly kind: 'violates'; readonly times: number }
  /** Swallows an error of the database so many times. */
  | { readonly kind: 'swallows'; readonly times: number }
  | { readonly kind: 'permanent' }
  /** Commits behind our back, and then returns or throws. */
  | { readonly kind: 'commits'; readonly throws: boolean }
  /** Takes longer than it may, so many times. */
  | { readonly kind: 'slow'; readonly times: number }
  /** Takes its process with it, so many times. */
  | { readonly kind: 'kills'; readonly times: number }

/** A message of a scenario. */
export interface MessagePlan {
  readonly id: string
  readonly key: string | undefined
  readonly behaviour: Behaviour
  /** How many copies the sender sends. */
  readonly copies: number
  /** Its row is written at once and not just before the commit. */
  readonly now: boolean
}

/** How messages come to the consumer. */
export type Route =
  /** The broker delivers, the application calls `handleMany`, and there is no worker. */
  | 'handle'
  /** The broker delivers, the handler runs at once. */
  | 'direct'
  /** The broker delivers, workers run the handler from the inbox. */
  | 'stored'
  /** Published with local delivery. */
  | 'local'
  /** Published to the outbox, relayed to a destination. */
  | 'relay'
  /** Published to the outbox, relayed to the consumer's queue. */
  | 'chain'
  /** The broker delivers, and the handler runs under a lease. */
  | 'leased'
  /** The messages are in the inbox, and processes work them under leases, without a worker. */
  | 'driven'

/** All of them, those that cost little more often. */
const ROUTES: readonly Route[] = [
  'handle',
  'handle',
  'direct',
  'stored',
  'local',
  'relay',
  'relay',
  'chain',
  'leased',
  'driven',
  'driven',
]

/** Whether messages are published by the application itself, and not sent by others to the queue. */
export function isPublished(route: Route): boolean {
  return route === 'local' || route === 'relay' || route === 'chain'
}

/** Whether handlers run under a lease. */
export function isLeased(route: Route): route is 'leased' | 'driven' {
  return route === 'leased' || route === 'driven'
}

/** What leased handlers do outside. */
export interface LeasedPlan {
  readonly onUnknown: 'hold' | 'retry-same-key' | 'verify'
  /** Whether the provider does not do a second time what comes with a key that it knows. */
  readonly honoursKeys: boolean
  /** The names of the calls. */
  readonly effects: readonly string[]
  readonly timeoutMs: number | undefined
}

/** What happens in one history. */
export interface Scenario {
  readonly seed: number
  readonly route: Route
  readonly workers: number
  readonly messages: readonly MessagePlan[]
  readonly order: 'none' | 'wait' | 'skip'
  readonly group: number
  readonly many: boolean
  readonly onError: 'store' | 'rollback'
  readonly attempts: number
  readonly ordersKeys: boolean
  readonly marksRedelivered: boolean
  readonly keepsOrder: boolean
  readonly keepSent: boolean
  /** Messages that the destination will never take, by id. */
  readonly refused: readonly string[]
  /** What an operator does while it runs. */
  readonly operator: 'none' | 'retry' | 'discard' | 'release' | 'settle'
  readonly cleanup: boolean
  /** Whether a receipt that is found is locked, as on MariaDB. */
  readonly locksDuplicates: boolean
  /** The odds that a process is slow. */
  readonly slowProcess: boolean
  readonly slowness: number
  readonly chaos: ChaosPlan
  readonly leased: LeasedPlan
}

/** How long a handler may take. */
export const TIMEOUT_MS = 1_000
/** How long a leased message stays with a process that is not heard of. */
export const LEASE_MS = 3_000
/** The longest pause between two looks: long, because looks that find nothing tell nothing. */
export const POLL_MS = 10_000
/** How long it takes until a worker is held to be dead and its work taken over. */
export const TAKEOVER_MS = 15_000

/** What a message should come to. */
export function expectedOf(plan: MessagePlan, scenario: Scenario): Expected {
  const { behaviour } = plan
  const { attempts, onError, operator, slowness } = scenario
  if (breaksOf(plan, scenario)) return 'either'
  if (isLeased(scenario.route)) return expectedOfLeased(plan, scenario)
  // A process that is paused in a handler comes back too late for it: that is an attempt, too.
  const tries = ('times' in behaviour ? behaviour.times : 0) + (scenario.chaos.pauses ? scenario.chaos.budget : 0)
  if (behaviour.kind === 'ok') return tries < attempts ? 'effect' : 'either'
  if (operator === 'retry') return 'either'
  if (behaviour.kind === 'permanent') return 'failed'
  if (behaviour.kind === 'kills' || behaviour.kind === 'commits') return 'either'
  // Time that runs away uses up attempts.
  if (slowness > 0) return 'either'
  if (onError === 'rollback') return 'effect'
  if (behaviour.times >= attempts) return 'failed'
  return tries < attempts ? 'effect' : 'either'
}

/**
 * Any fault, and any handler that ends the process of the others, may leave a call of which nobody knows whether it happened;
 * then a person has to decide.
 */
function expectedOfLeased({ behaviour }: MessagePlan, { chaos, slowness, operator, messages }: Scenario): Expected {
  if (chaos.budget > 0 || slowness > 0 || operator !== 'none') return 'either'
  if (messages.some((each) => each.behaviour.kind === 'kills')) return 'either'
  if (behaviour.kind === 'permanent') return 'failed'
  return behaviour.kind === 'ok' ? 'effect' : 'either'
}

/** Whether a handler may commit behind our back while this message is in its transaction. */
export function breaksOf({ behaviour }: MessagePlan, { group, many, messages }: Scenario): boolean {
  if (behaviour.kind === 'commits') return true
  return (group > 1 || many) && messages.some((each) => each.behaviour.kind === 'commits')
}

/** Whether another handler may commit behind our back while this message is in its transaction. */
export function isBrokenByOthers(plan: MessagePlan, { group, many, messages }: Scenario): boolean {
  return (group > 1 || many) && messages.some((each) => each !== plan && each.behaviour.kind === 'commits')
}

/** A scenario by chance. */
export function randomScenario(seed: number, routes: readonly Route[] = ROUTES): Scenario {
  const random = seeded(Math.imul(seed, 0x9e3779b1))
  const one = <T>(...items: readonly T[]): T => items[Math.floor(random() * items.length)] as T
  const odds = (chance: number): boolean => random() < chance
  const route = one(...routes)
  const leased = isLeased(route)
  const atOnce = route === 'handle' || route === 'direct' || (leased && odds(0.5))
  const order = atOnce || route === 'relay' ? 'none' : one<Scenario['order']>('none', 'wait', 'skip', 'wait')
  const ordersKeys = order !== 'none' || odds(0.2)
  const onError = atOnce && !leased && odds(0.2) ? 'rollback' : 'store'
  const marksRedelivered = odds(0.6)
  // Only where nothing comes a second time may receipts be forgotten so soon.
  const cleanup = route === 'local' && odds(0.1)
  const plan = { onError, order, route, marksRedelivered } as const
  const messages = randomMessages(random, plan)
  const operator = odds(0.7) ? 'none' : one<Scenario['operator']>('retry', 'discard', leased ? 'settle' : 'release')
  return {
    seed,
    ...plan,
    workers: one(1, 2, 2, 3),
    messages,
    group: leased ? 1 : one(1, 1, 2, 4),
    many: !leased && odds(0.15),
    attempts: 3,
    ordersKeys,
    keepsOrder: odds(0.4),
    keepSent: odds(0.2),
    refused: (route === 'relay' || route === 'chain') && odds(0.1) ? [one(...messages).id] : [],
    operator,
    cleanup,
    locksDuplicates: odds(0.3),
    slowProcess: odds(0.3),
    slowness: odds(0.2) ? 0.03 : 0,
    chaos: {
      budget: one(0, 1, 1, 2, 2, 3),
      odds: one(0.01, 0.03, 0.08),
      kills: odds(0.5),
      pauses: odds(0.25),
      links: odds(0.6) && !cleanup,
      brokers: odds(0.6),
    },
    leased: leased ? randomLeased(random) : NOT_LEASED,
  }
}

/** What leased handlers do where nobody says. */
export const NOT_LEASED: LeasedPlan = { onUnknown: 'hold', honoursKeys: false, effects: ['sms'], timeoutMs: undefined }

function randomLeased(random: () => number): LeasedPlan {
  const policies: LeasedPlan['onUnknown'][] = ['hold', 'retry-same-key', 'verify']
  const onUnknown = policies[Math.floor(random() * 3)] as LeasedPlan['onUnknown']
  return {
    onUnknown,
    // Nobody calls again by himself where that does it again.
    honoursKeys: onUnknown === 'retry-same-key' || random() < 0.3,
    effects: random() < 0.3 ? ['sms', 'push'] : ['sms'],
    timeoutMs: random() < 0.3 ? 2_000 : undefined,
  }
}

function randomMessages(
  random: () => number,
  plan: Pick<Scenario, 'onError' | 'order' | 'route' | 'marksRedelivered'>,
): MessagePlan[] {
  const count = 1 + Math.floor(random() * random() * 6)
  const keyed = plan.order !== 'none' || random() < 0.5
  const keys = keyed ? ['a', random() < 0.7 ? 'a' : 'b'] : [undefined]
  return Array.from({ length: count }, (_, index) => ({
    id: `m${index + 1}`,
    key: keys[Math.floor(random() * keys.length)],
    behaviour: randomBehaviour(random, plan),
    copies: plan.order === 'none' && random() < 0.3 ? 2 : 1,
    now: random() < 0.3,
  }))
}

function randomBehaviour(
  random: () => number,
  { onError, route, marksRedelivered }: Pick<Scenario, 'onError' | 'route' | 'marksRedelivered'>,
): Behaviour {
  if (random() < 0.55) return { kind: 'ok' }
  // A handler is called more often than once per attempt: in groups, and after a lost link.
  const times = onError === 'store' && random() < 0.25 ? 99 : 1 + Math.floor(random() * 2)
  // Without a mark nobody can tell that a direct delivery came before.
  const canTell = (route !== 'direct' && route !== 'handle') || marksRedelivered
  const kinds: Behaviour[] = [
    { kind: 'fails', times },
    { kind: 'violates', times },
    { kind: 'swallows', times },
    { kind: 'permanent' },
    { kind: 'slow', times: 1 },
    { kind: 'kills', times: canTell && random() < 0.25 ? 9 : 1 },
  ]
  // A handler that commits by itself and comes again is nobody's fault but its own.
  if (onError === 'store') kinds.push({ kind: 'commits', throws: random() < 0.5 })
  return kinds[Math.floor(random() * kinds.length)] as Behaviour
}
