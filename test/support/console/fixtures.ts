// Answers of the console's server in which every field that a message, an error or a person can fill has a text of the test's choice.
// They are typed by what server and page have agreed on, so that a field that is added is missed here.
import type {
  AuditView,
  ConsumerView,
  EffectsView,
  EffectView,
  ErrorView,
  FailedView,
  GroupsView,
  HealthView,
  HistoryView,
  KeysView,
  LifeView,
  MessagesView,
  MomentView,
  OperationsView,
  OperationView,
  OverviewView,
  PayloadView,
  RelayView,
  RetriesView,
  RowView,
  SessionView,
  WorkersView,
} from '../../../src/console/api.ts'

/** Gives the text of a field: the name of the field, and a sensible text. */
export type Texts = (field: string, sensible: string) => string

const at = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString()
const MINUTE = 60_000

/** All answers, by the path below `api/`. */
export function answers(text: Texts, rows = 8): ReadonlyMap<RegExp, (path: string) => unknown> {
  const error = (): ErrorView => ({
    name: text('error.name', 'CardError'),
    message: text('error.message', 'The card of the customer was declined: insufficient funds'),
    code: text('error.code', 'card_declined'),
    stack: text(
      'error.stack',
      'CardError: declined\n    at charge (/app/billing.ts:41:11)\n    at handle (/app/main.ts:9:3)',
    ),
  })
  const row = (index: number, place: RowView['place'] = 'inbox'): RowView => ({
    place,
    seq: String(9_007_199_254_740_993n + BigInt(index)),
    scope: text('scope', 'billing'),
    source: text('source', '/shop/orders'),
    id: text('id', `01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e${String(index).padStart(2, '0')}`),
    type: text('type', 'order.placed'),
    key: text('key', `customer-${index % 3}`),
    state: text('state', ['waiting', 'retrying', 'held', 'leased'][index % 4] ?? 'waiting'),
    attempts: index,
    at: at(index * MINUTE),
    dueAt: at(-index * 10_000),
    error: index % 2 === 0 ? error() : null,
  })
  const list = <T>(one: (index: number) => T): T[] => Array.from({ length: rows }, (_, index) => one(index))
  const effect = (index: number): EffectView => ({
    scope: text('scope', 'billing'),
    messageKey: text('messageKey', 'bWVzc2FnZQ'),
    name: text('effect.name', `charge-${index}`),
    key: '0190a8ae-7d3c-8f16-9c52-3f1f7f0c2b9e',
    state: (['unknown', 'done', 'not-done', 'started'] as const)[index % 4] ?? 'unknown',
    resultLost: false,
    attempts: 1 + index,
    error: error(),
    firstAt: at(30 * MINUTE),
    lastAt: at(29 * MINUTE),
    message: {
      source: text('source', '/shop'),
      id: text('id', '01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e5f'),
      type: 'order.placed',
    },
    seq: '12',
  })
  const payload = (): PayloadView => ({
    contentType: text('contentType', 'application/json'),
    bytes: 118,
    text: text(
      'payload',
      '{"orderId":12345678901234567890,"customer":"Ada","cents":4200,"items":[{"sku":"A-1","n":2}],"gift":false}',
    ),
    encoding: 'text',
    whole: true,
    redacted: false,
    headers: [{ name: text('header.name', 'x-tenant'), value: text('header.value', 'north') }],
  })
  const pause = { actor: text('actor', 'ada'), note: text('note', 'the provider is down'), at: at(5 * MINUTE) }
  const consumer = (index: number): ConsumerView => ({
    name: text('consumer', ['billing', 'emails', 'search'][index] ?? `consumer-${index}`),
    waiting: [1_482, 12, 0][index] ?? 0,
    retrying: [37, 0, 0][index] ?? 0,
    held: [3, 0, 0][index] ?? 0,
    failed: [1_243, 4, 0][index] ?? 0,
    unknownEffects: [2, 0, 0][index] ?? 0,
    oldestAt: index === 2 ? null : at((index + 1) * 17 * MINUTE),
    estimated: index === 0,
    types: [text('type', 'order.placed'), text('type', 'order.cancelled')],
    ordered: index === 0,
    workers: 3 - index,
    unserved: false,
    paused: index === 1 ? pause : null,
  })
  const relay = (index: number): RelayView => ({
    name: text('relay', ['default', 'audit'][index] ?? `relay-${index}`),
    destination: text('destination', 'rabbitmq'),
    waiting: [24, 0][index] ?? 0,
    retrying: [7, 0][index] ?? 0,
    error: index === 0 ? error() : null,
    held: 0,
    failed: index,
    oldestAt: index === 0 ? at(4_000) : null,
    estimated: false,
    workers: 2,
    unserved: false,
    down: [1, 0][index] ?? 0,
    reason: index === 0 ? text('reason', 'connect ECONNREFUSED 127.0.0.1:5672') : null,
    paused: index === 1 ? pause : null,
  })
  const history = (): HistoryView => {
    const minutes = Array.from({ length: 60 }, (_, index) => Math.floor(Date.now() / MINUTE - 59 + index) * 60)
    const wave = (height: number, shift = 0) =>
      minutes.map((_, index) =>
        Math.max(0, Math.round(height * (1 + 0.5 * Math.sin((index + shift) / 7) + ((index * 7919) % 11) / 30))),
      )
    const late = (height: number) =>
      minutes.map((_, index) => (index < 42 ? 0 : Math.round(height * (1 + ((index * 31) % 7) / 9))))
    const series = (origin: 'inbox' | 'outbox', scope: string, height: number) => ({
      origin,
      scope,
      done: wave(height),
      retried: late(height / 9),
      failed: late(height / 14),
      duplicates: wave(2),
      lagMs: wave(240, 9).map((value, index) => (index < 42 ? value : value * 9)),
      waiting: late(height * 2).map((value, index) => value + (index % 5)),
      oldestMs: late(90_000),
    })
    return {
      minutes,
      series: [
        series('inbox', text('consumer', 'billing'), 320),
        series('inbox', text('consumer', 'emails'), 90),
        series('outbox', text('relay', 'default'), 280),
      ],
    }
  }
  const operation = (index: number): OperationView => ({
    id: `01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e${String(index).padStart(2, '0')}`,
    kind: index % 2 === 0 ? 'retry' : 'discard',
    where: { scope: text('scope', 'billing'), reason: text('reason', 'attempts-exhausted'), until: at(2 * MINUTE) },
    perSecond: 50,
    total: 1_243,
    state: (['running', 'paused', 'done', 'cancelled'] as const)[index % 4] ?? 'done',
    done: index === 2 ? 1_240 : 611,
    gone: 2,
    errors: 1,
    error: error(),
    actor: text('actor', 'ada'),
    note: text('note', 'the provider is back'),
    createdAt: at(2 * MINUTE),
    changedAt: at(1_000),
    endedAt: index === 2 ? at(500) : null,
    worked: index === 0,
  })
  const moment = (where: MomentView['where'], agoMs: number, said: string): MomentView => ({
    at: at(agoMs),
    where,
    scope: text('scope', 'billing'),
    text: text('moment.text', said),
    error: where === 'attempt' || where === 'failed' ? error() : null,
    actor: where === 'audit' ? text('actor', 'ada') : null,
    note: where === 'audit' ? text('note', 'the card was renewed') : null,
    seq: where === 'failed' ? '12' : null,
  })
  const life = (): LifeView => ({
    id: text('id', '01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e5f'),
    sources: [text('source', '/shop/orders')],
    type: text('type', 'order.placed'),
    key: text('key', 'customer-1'),
    moments: [
      moment('outbox', 9 * MINUTE, 'It was written to the outbox of the relay default.'),
      moment('sent', 8.9 * MINUTE, 'The broker confirmed it.'),
      moment('inbox', 8.8 * MINUTE, 'It was stored for billing.'),
      moment('attempt', 8 * MINUTE, 'Attempt 1 failed.'),
      moment('effect', 7 * MINUTE, 'The external call charge began.'),
      moment('failed', 5 * MINUTE, 'It failed for good after 5 attempts.'),
      moment('audit', 2 * MINUTE, 'A person retried it.'),
    ],
    waiting: [
      {
        scope: text('scope', 'billing'),
        origin: 'inbox',
        seq: '7',
        why: text(
          'why',
          'It waits behind 3 messages of its key customer-1, the first of which failed for good 12 minutes ago and holds the key until it is retried, discarded or released.',
        ),
      },
    ],
    failed: ['12'],
    effects: [effect(0)],
    payload: payload(),
    traceId: text('traceId', '4bf92f3577b34da6a3ce929d0e0e4736'),
    traceUrl: 'https://traces.example/4bf92f35',
    thorough: false,
  })
  const failed = (): FailedView => ({
    ...row(0, 'failed'),
    seq: '12',
    origin: 'inbox',
    reason: text('reason', 'attempts-exhausted'),
    errorHash: text('errorHash', '3f9a2c11'),
    held: true,
    replacedBy: null,
    history: list((index) => ({
      at: at(index * MINUTE),
      attempt: index + 1,
      worker: text('worker', 'host-1 4711'),
      error: error(),
    })),
    failures: rows + 4,
    effects: [effect(0), effect(1)],
    payload: payload(),
  })
  const group = (index: number): GroupsView['groups'][number] => ({
    origin: index === 3 ? 'outbox' : 'inbox',
    scope: text('scope', ['billing', 'billing', 'emails', 'default'][index] ?? 'search'),
    type: text('type', ['order.placed', 'order.cancelled', 'order.placed', 'invoice.sent'][index] ?? 'order.placed'),
    reason: text('reason', index === 1 ? 'rejected' : 'attempts-exhausted'),
    errorHash: text('errorHash', `3f9a2c1${index}`),
    count: [1_204, 39, 4, 1][index] ?? 1,
    firstAt: at(43 * MINUTE),
    lastAt: at(20_000),
    error: error(),
    seq: '12',
  })
  const workers: WorkersView['workers'] = (['alive', 'alive', 'stuck', 'dead'] as const).map((state, index) => ({
    id: text('worker', `worker-${index}`),
    name: text('worker.name', `orders-${index}`),
    state,
    startedAt: at(3_600_000 * (index + 1)),
    silentMs: [300, 420, 61_000, 3_600_000][index] ?? 0,
    inHand: [4, 2, 1, 0][index] ?? 0,
    consumers: [text('consumer', 'billing'), text('consumer', 'emails')],
    relays: [text('relay', 'default')],
    down: index === 0 ? [{ relay: text('relay', 'default'), reason: text('reason', 'connect ECONNREFUSED') }] : [],
    lanes: [{ scope: text('scope', 'billing'), lanes: 8, of: 16 }],
  }))
  const audit: AuditView['rows'] = list((index) => ({
    seq: String(index),
    at: at(index * MINUTE),
    action: ['retry', 'begin', 'note', 'pause'][index % 4] ?? 'retry',
    actor: text('actor', ['ada', 'grace'][index % 2] ?? 'ada'),
    note: text('note', 'the card was renewed'),
    origin: 'inbox',
    scope: text('scope', 'billing'),
    source: text('source', '/shop/orders'),
    id: text('id', '01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e5f'),
    type: text('type', 'order.placed'),
  }))
  const page: MessagesView = { rows: list((index) => row(index)), cursor: 'next' }
  const overview: OverviewView = {
    at: at(0),
    consumers: [0, 1, 2].map(consumer),
    relays: [0, 1].map(relay),
    failed: [
      {
        origin: 'inbox',
        scope: text('scope', 'billing'),
        reason: text('reason', 'attempts-exhausted'),
        count: 1_204,
        estimated: false,
      },
      {
        origin: 'inbox',
        scope: text('scope', 'billing'),
        reason: text('reason', 'rejected'),
        count: 39,
        estimated: false,
      },
    ],
    workers: { alive: 2, stuck: 1, dead: 1 },
    tables: [{ table: 'receipts', rows: 10_000_000, oldestMs: 86_400_000 }],
    operations: [operation(0)],
    history: history(),
  }
  const session: SessionView = {
    actor: text('actor', 'ada'),
    role: 'admin',
    readOnly: false,
    payloads: true,
    store: text('store', 'postgres'),
    version: '0.1.0',
    signOut: 'password',
    pollMs: 2_000,
  }
  const keys: KeysView['keys'] = list((index) => ({
    origin: 'inbox',
    scope: text('scope', 'billing'),
    key: text('key', `customer-${index}`),
    id: text('id', '01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e5f'),
    seq: '12',
    heldAt: at(index * MINUTE),
    waiting: index * 3,
  }))
  const finding = (level: 'ok' | 'warning' | 'error', check: string, message: string, advice: string) => ({
    check: text('check', check),
    level,
    message: text('finding', message),
    advice: text('advice', advice),
  })
  const health: HealthView['findings'] = [
    finding('ok', 'schema', 'every migration is applied', ''),
    finding(
      'warning',
      'workers',
      'the worker host-1 4711 cannot reach the destination of the relay default; it leaves its messages to others',
      'Look at its log (relay-down), and at the network between it and the broker. It tries again by itself.',
    ),
    finding(
      'error',
      'long transactions',
      '1 transaction has been open for more than 10 minutes',
      'Look for the session in pg_stat_activity, and end it.',
    ),
  ]
  return new Map<RegExp, (path: string) => unknown>([
    [/^session$/, () => session],
    [/^overview$/, () => overview],
    [/^workers$/, () => ({ at: at(0), workers }) satisfies WorkersView],
    [/^messages$/, () => page],
    [/^message$/, life],
    [/^failed$/, () => ({ rows: list((index) => row(index, 'failed')), cursor: null }) satisfies MessagesView],
    [/^failed\/groups$/, () => ({ groups: [0, 1, 2, 3].map(group), more: true }) satisfies GroupsView],
    [/^failed\/count$/, () => ({ count: 1_243 })],
    [/^failed\/\d+$/, failed],
    [/^keys$/, () => ({ keys, more: true }) satisfies KeysView],
    [/^effects$/, () => ({ rows: list(effect), cursor: null }) satisfies EffectsView],
    [/^retries$/, () => ({ rows: list((index) => row(index)), more: true }) satisfies RetriesView],
    [/^audit$/, () => ({ rows: audit, cursor: null }) satisfies AuditView],
    [/^health$/, () => ({ findings: health }) satisfies HealthView],
    [/^operations$/, () => ({ operations: [0, 1, 2, 3].map(operation), cursor: null }) satisfies OperationsView],
    [/^operations\/[\w-]+$/, () => operation(0)],
  ])
}
