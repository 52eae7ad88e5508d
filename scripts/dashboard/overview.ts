import { lines, type Panel, stat } from './grafana.ts'
import { of, orNone, orNoneCounted, quantile, rate, state, total } from './queries.ts'

// Of the chosen consumers and relays together. The two have different labels, so `or` puts one list after the other.
const waiting = [
  state('consumer, state', 'hapax_inbox_messages', 'state=~"waiting|retrying"'),
  state('relay, state', 'hapax_outbox_messages', 'state="waiting"'),
].join(' or ')
const oldest = `${of('hapax_inbox_oldest_seconds')} or ${of('hapax_outbox_oldest_seconds')}`

/** A count of failed messages or held keys: the scope is a consumer or a relay, depending on where it comes from. */
function ofScope(by: string, metric: string): string {
  const inbox = of(metric, 'origin="inbox"', 'scope=~"$consumer"')
  const outbox = of(metric, 'origin="outbox"', 'scope=~"$relay"')
  return `max by (${by}) (${inbox} or ${outbox})`
}

export const overview: readonly Panel[] = [
  stat(
    {
      title: 'Database',
      description:
        'Whether every process reaches its database. Where one does not, nothing is processed there and nothing is lost.',
      unit: 'none',
      width: 4,
      queries: [{ expr: `min(${of('hapax_store_up')})`, legend: 'database' }],
    },
    {
      graph: false,
      mappings: [
        {
          type: 'value',
          options: { 0: { text: 'DOWN', color: 'red', index: 0 }, 1: { text: 'up', color: 'green', index: 1 } },
        },
      ],
    },
  ),
  stat(
    {
      title: 'Workers',
      description: 'Workers whose heartbeats arrive. Without one, nothing that waits is processed or sent.',
      unit: 'short',
      width: 4,
      queries: [{ expr: `sum(${state('state', 'hapax_workers', 'state="alive"')})`, legend: 'alive' }],
    },
    {
      mappings: [{ type: 'value', options: { 0: { text: 'none', color: 'red', index: 0 } } }],
    },
  ),
  stat({
    title: 'Waiting',
    description:
      'Messages in the inbox and the outbox: new ones, and those that wait for their next attempt. Beyond 10,000 of a kind, an estimate.',
    unit: 'short',
    width: 4,
    queries: [{ expr: orNone(`sum(${waiting})`), legend: 'waiting' }],
  }),
  stat({
    title: 'Oldest',
    description:
      'The age of the oldest message that waits, also behind a held key. The first number to look at: it grows whatever is stuck.',
    unit: 'dtdurations',
    width: 4,
    limits: { warn: 60, bad: 300 },
    queries: [{ expr: orNone(`max(${oldest})`), legend: 'oldest' }],
  }),
  stat({
    title: 'Lag',
    description:
      'From publish to the committed effect, by the clock of the database: half of the messages, and all but 1 %, took less.',
    unit: 's',
    width: 4,
    limits: { warn: 10, bad: 60 },
    noValue: 'idle',
    queries: [
      { expr: quantile(0.5, '', 'hapax_lag_seconds'), legend: 'p50' },
      { expr: quantile(0.99, '', 'hapax_lag_seconds'), legend: 'p99' },
    ],
  }),
  stat({
    title: 'Processed',
    description: 'Messages per second whose effects were committed.',
    unit: 'ops',
    width: 4,
    queries: [{ expr: orNoneCounted(rate('', 'hapax_messages_total', 'outcome="processed"')), legend: 'processed' }],
  }),
  stat({
    title: 'Duplicates blocked',
    description: 'Messages that had been taken before and therefore changed nothing, in the range shown.',
    unit: 'short',
    decimals: 0,
    width: 4,
    queries: [{ expr: orNoneCounted(total('hapax_messages_total', 'outcome="duplicate"')), legend: 'duplicates' }],
  }),
  stat({
    title: 'Failed',
    description:
      'Messages in the failed store, from the inbox and the outbox. Each waits for a person: `hapax failed list`.',
    unit: 'short',
    width: 4,
    limits: { warn: 1, bad: 100 },
    queries: [{ expr: orNone(`sum(${ofScope('origin, scope, reason', 'hapax_failed_messages')})`), legend: 'failed' }],
  }),
  stat({
    title: 'Held keys',
    description: 'Keys whose messages wait behind one that failed: `hapax keys list`.',
    unit: 'short',
    width: 4,
    limits: { warn: 1, bad: 10 },
    queries: [{ expr: orNone(`sum(${ofScope('origin, scope', 'hapax_held_keys')})`), legend: 'held' }],
  }),
  stat({
    title: 'Effects unknown',
    description: 'External calls of which nobody knows whether they happened: `hapax effects list`.',
    unit: 'short',
    width: 4,
    limits: { warn: 1, bad: 10 },
    queries: [{ expr: orNone(`sum(${state('consumer', 'hapax_effects_unknown')})`), legend: 'unknown' }],
  }),
  stat({
    title: 'Relays down',
    description: 'Relays of which at least one process does not reach the broker.',
    unit: 'short',
    width: 4,
    limits: { bad: 1 },
    queries: [{ expr: orNoneCounted(`count(min by (relay) (${of('hapax_relay_up')}) == 0)`), legend: 'down' }],
  }),
  stat({
    title: 'State age',
    description:
      'How long ago the database was last asked what waits. Everything above that is not a rate is as old as this.',
    unit: 's',
    decimals: 0,
    width: 4,
    limits: { warn: 60, bad: 120 },
    queries: [{ expr: `min(${of('hapax_state_age_seconds')})`, legend: 'age' }],
  }),
  lines(
    {
      title: 'Messages by outcome',
      description: 'What became of the messages that consumers took or were given again.',
      unit: 'ops',
      width: 12,
      queries: [{ expr: rate('outcome', 'hapax_messages_total'), legend: '{{outcome}}' }],
    },
    { stacked: true },
  ),
  lines({
    title: 'Lag from publish to effect',
    description:
      'By the clock of the database. It includes the outbox, the broker, the inbox, retries and the handler.',
    unit: 's',
    width: 12,
    queries: [
      { expr: quantile(0.5, '', 'hapax_lag_seconds'), legend: 'p50' },
      { expr: quantile(0.95, '', 'hapax_lag_seconds'), legend: 'p95' },
      { expr: quantile(0.99, '', 'hapax_lag_seconds'), legend: 'p99' },
    ],
  }),
  lines(
    {
      title: 'What waits',
      description:
        'Messages in the inbox by consumer, and in the outbox by relay. Those behind a held key are counted, the held ones are not.',
      unit: 'short',
      width: 12,
      queries: [
        {
          expr: `sum by (consumer) (${state('consumer, state', 'hapax_inbox_messages', 'state=~"waiting|retrying"')})`,
          legend: 'inbox {{consumer}}',
        },
        { expr: state('relay', 'hapax_outbox_messages', 'state="waiting"'), legend: 'outbox {{relay}}' },
      ],
    },
    { stacked: true },
  ),
  lines({
    title: 'Oldest message',
    description:
      'The age of the oldest message that waits, by consumer and relay. A straight line upwards means that nothing moves.',
    unit: 's',
    width: 12,
    limits: { bad: 300 },
    queries: [
      { expr: state('consumer', 'hapax_inbox_oldest_seconds'), legend: 'inbox {{consumer}}' },
      { expr: state('relay', 'hapax_outbox_oldest_seconds'), legend: 'outbox {{relay}}' },
    ],
  }),
]
