import { setImmediate as turn } from 'node:timers/promises'
import { type Bug, bugs } from './bugs.ts'
import { CALM, type ChaosPlan } from './chaos.ts'
import type { Violation } from './checker.ts'
import { Enumeration } from './choices.ts'
import { runHistory } from './history.ts'
import { type Behaviour, type MessagePlan, NOT_LEASED, type Route, type Scenario } from './scenario.ts'

/** What is tried in every order: two workers, one or two messages, and perhaps a fault. */
export interface Case {
  readonly name: string
  /** Whether it is small enough to be walked to its end in no time. */
  readonly small: boolean
  readonly scenario: Scenario
}

/** What all interleavings of a case came to. */
export interface Walk {
  readonly histories: number
  /** Whether that were all. */
  readonly complete: boolean
  readonly failures: readonly { readonly choices: readonly number[]; readonly violations: readonly Violation[] }[]
}

const OK: Behaviour = { kind: 'ok' }
const FAILS: Behaviour = { kind: 'fails', times: 1 }
const KILL: ChaosPlan = { ...CALM, budget: 1, odds: 1, kills: true }
const PAUSE: ChaosPlan = { ...CALM, budget: 1, odds: 1, pauses: true }
const OUTSIDE: ChaosPlan = { ...CALM, budget: 1, odds: 1, brokers: true }
const LINK: ChaosPlan = { ...CALM, budget: 1, odds: 1, links: true }

export const cases: readonly Case[] = [
  aCase('one message twice', 'handle', [plan('m1', OK, 2)], CALM),
  aCase('one message twice, a broken link', 'handle', [plan('m1', OK, 2)], LINK),
  aCase('one message twice, a death', 'handle', [plan('m1', OK, 2)], KILL),
  aCase('one failing message twice', 'handle', [plan('m1', FAILS, 2)], CALM),
  aCase('one failing message twice, a broken link', 'handle', [plan('m1', FAILS, 2)], LINK),
  aCase('two messages', 'handle', [plan('m1', OK, 1), plan('m2', OK, 1)], CALM),
  aCase('two messages, a death', 'handle', [plan('m1', OK, 1), plan('m2', OK, 1)], KILL),
  aCase('two messages of a key, in order', 'local', [plan('m1', OK, 1, 'a'), plan('m2', OK, 1, 'a')], CALM),
  aCase('one leased message', 'driven', [plan('m1', OK, 1)], CALM),
  aCase('one leased message, a pause', 'driven', [plan('m1', OK, 1)], PAUSE),
  aCase('one leased message, a death', 'driven', [plan('m1', OK, 1)], KILL),
  aCase('one leased message, a broken link', 'driven', [plan('m1', OK, 1)], LINK),
  aCase('one leased message, trouble outside', 'driven', [plan('m1', OK, 1)], OUTSIDE),
  aCase('two messages of a key, relayed', 'relay', [plan('m1', OK, 1, 'a'), plan('m2', OK, 1, 'a')], CALM),
]

function plan(id: string, behaviour: Behaviour, copies: number, key?: string): MessagePlan {
  return { id, behaviour, copies, key, now: false }
}

function aCase(name: string, route: Route, messages: readonly MessagePlan[], chaos: ChaosPlan): Case {
  const scenario: Scenario = {
    seed: 1,
    route,
    workers: 2,
    messages,
    order: route === 'local' ? 'wait' : 'none',
    group: 1,
    many: false,
    onError: 'store',
    attempts: 3,
    ordersKeys: route === 'local',
    marksRedelivered: true,
    keepsOrder: false,
    keepSent: false,
    refused: [],
    operator: 'none',
    cleanup: false,
    locksDuplicates: false,
    slowProcess: false,
    slowness: 0,
    chaos,
    leased: NOT_LEASED,
  }
  return { name, small: chaos === CALM, scenario }
}

/** Runs every interleaving of a case, or as many as fit into the time. */
export async function walk({ scenario }: Case, seconds: number, bug?: string): Promise<Walk> {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  const choices = new Enumeration()
  const failures: { choices: readonly number[]; violations: readonly Violation[] }[] = []
  const put: Bug | undefined = bug === undefined ? undefined : bugs[bug]
  const until = performance.now() + 1_000 * seconds
  let histories = 0
  let more = true
  try {
    while (more && performance.now() < until) {
      const { violations } = await runHistory(scenario, { choices, bug: put })
      histories += 1
      if (violations.length > 0 && failures.length < 5) failures.push({ choices: choices.choices, violations })
      more = choices.next()
      if (histories % 100 === 0) await turn()
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
  return { histories, complete: !more, failures }
}
