import { heatmap, lines, type Panel, table, timeline } from './grafana.ts'
import { of, quantile, rate, state } from './queries.ts'

export const consumers: readonly Panel[] = [
  lines(
    {
      title: 'Processed by consumer',
      description: 'Committed effects per second.',
      unit: 'ops',
      width: 8,
      queries: [{ expr: rate('consumer', 'hapax_messages_total', 'outcome="processed"'), legend: '{{consumer}}' }],
    },
    { stacked: true },
  ),
  lines({
    title: 'Retries and failures',
    description:
      'Attempts that failed and are repeated, messages that failed for good, and transactions that were rolled back.',
    unit: 'ops',
    width: 8,
    queries: [
      {
        expr: rate(
          'consumer, outcome',
          'hapax_messages_total',
          'outcome=~"retrying|failed|rolled-back|expired|conflict"',
        ),
        legend: '{{consumer}} {{outcome}}',
      },
    ],
  }),
  lines({
    title: 'Duplicates and mismatches',
    description:
      'Duplicates are blocked and harmless. A mismatch is a duplicate with another payload than the first one: a sender reuses ids.',
    unit: 'ops',
    width: 8,
    queries: [
      { expr: rate('consumer', 'hapax_messages_total', 'outcome="duplicate"'), legend: '{{consumer}} duplicates' },
      { expr: rate('consumer', 'hapax_mismatches_total'), legend: '{{consumer}} mismatches' },
    ],
  }),
  lines({
    title: 'Rejected deliveries, share',
    description:
      'Deliveries that were given back because the database could not tell whether they are duplicates, as a share of all deliveries.',
    unit: 'percentunit',
    width: 8,
    limits: { bad: 0.01 },
    queries: [
      {
        // What is stored or retried is counted again when it ends.
        expr: `${rate('consumer', 'hapax_messages_total', 'outcome="unavailable"')} / ${rate('consumer', 'hapax_messages_total', 'outcome!~"stored|retrying"')}`,
        legend: '{{consumer}}',
      },
    ],
  }),
  lines({
    title: 'Attempts, p99',
    description: 'How many attempts a message took until it was processed, or failed for good.',
    unit: 'short',
    width: 8,
    queries: [{ expr: quantile(0.99, 'consumer', 'hapax_attempts'), legend: '{{consumer}}' }],
  }),
  lines({
    title: 'Time to process, p99',
    description: 'From the first statement to the commit, the handler included. A group shares it.',
    unit: 's',
    width: 8,
    queries: [{ expr: quantile(0.99, 'consumer', 'hapax_process_seconds'), legend: '{{consumer}}' }],
  }),
  lines({
    title: 'Check for duplicates',
    description:
      'Opening the transaction and writing the receipt, or claiming the row: what hapax itself takes before the handler runs.',
    unit: 's',
    width: 8,
    queries: [
      { expr: quantile(0.5, 'consumer', 'hapax_check_seconds'), legend: '{{consumer}} p50' },
      { expr: quantile(0.99, 'consumer', 'hapax_check_seconds'), legend: '{{consumer}} p99' },
    ],
  }),
  lines({
    title: 'Wait for a connection, p99',
    description:
      'How long transactions waited for a connection of the pool. More than a few milliseconds: the pool is too small.',
    unit: 's',
    width: 8,
    queries: [{ expr: quantile(0.99, 'consumer', 'hapax_pool_wait_seconds'), legend: '{{consumer}}' }],
  }),
  lines({
    title: 'Workers by consumer',
    description: 'Live workers that serve a consumer. Zero, while something waits: nobody will process it.',
    unit: 'short',
    decimals: 0,
    width: 8,
    queries: [{ expr: state('consumer', 'hapax_consumer_workers'), legend: '{{consumer}}' }],
  }),
  heatmap({
    title: 'Lag, all messages',
    description: 'How many messages took how long from publish to the committed effect.',
    unit: 's',
    width: 24,
    queries: [
      { expr: `sum by (le) (increase(${of('hapax_lag_seconds_bucket')}[$__rate_interval]))`, legend: '{{le}}' },
    ],
  }),
]

export const relays: readonly Panel[] = [
  lines({
    title: 'Published and relayed',
    description: 'Messages written to the outbox or to local inboxes, and messages that a broker has confirmed.',
    unit: 'ops',
    width: 8,
    queries: [
      { expr: rate('', 'hapax_published_total'), legend: 'published' },
      { expr: rate('relay', 'hapax_relayed_total'), legend: 'relayed {{relay}}' },
    ],
  }),
  lines({
    title: 'Time in the outbox',
    description: 'From publish to the confirm of the broker, by the clock of the database.',
    unit: 's',
    width: 8,
    queries: [
      { expr: quantile(0.5, 'relay', 'hapax_relay_lag_seconds'), legend: '{{relay}} p50' },
      { expr: quantile(0.99, 'relay', 'hapax_relay_lag_seconds'), legend: '{{relay}} p99' },
    ],
  }),
  timeline(
    {
      title: 'Broker reached',
      description: 'Whether all processes that serve a relay reach its broker.',
      unit: 'none',
      width: 8,
      queries: [{ expr: `min by (relay) (${of('hapax_relay_up')})`, legend: '{{relay}}' }],
    },
    [
      [0, 'down', 'red'],
      [1, 'up', 'green'],
    ],
  ),
  lines({
    title: 'Messages in the outbox',
    description: 'Messages that wait to be sent, and messages that are held behind one that the broker refused.',
    unit: 'short',
    width: 8,
    queries: [{ expr: state('relay, state', 'hapax_outbox_messages'), legend: '{{relay}} {{state}}' }],
  }),
  lines({
    title: 'Failures of relays',
    description:
      'Sends that are tried again, refusals for good, messages that no queue wanted, and pauses because the broker was away.',
    unit: 'ops',
    width: 8,
    queries: [{ expr: rate('relay, kind', 'hapax_relay_failures_total'), legend: '{{relay}} {{kind}}' }],
  }),
  lines({
    title: 'Workers by relay',
    description: 'Live workers that serve a relay. Zero, while something waits: nobody will send it.',
    unit: 'short',
    decimals: 0,
    width: 8,
    queries: [{ expr: state('relay', 'hapax_relay_workers'), legend: '{{relay}}' }],
  }),
]

export const requests: readonly Panel[] = [
  lines({
    title: 'Requests by outcome',
    description:
      'HTTP requests of hapax.http: run for the first time, sent again, refused. A mismatch is a key that a client has used for another request.',
    unit: 'ops',
    width: 8,
    queries: [{ expr: rate('scope, outcome', 'hapax_http_requests_total'), legend: '{{scope}} {{outcome}}' }],
  }),
  lines({
    title: 'Time to respond, p99',
    description: 'From the arrival of a request to its response, with what it waited for.',
    unit: 's',
    width: 8,
    queries: [{ expr: quantile(0.99, 'scope', 'hapax_http_request_seconds'), legend: '{{scope}}' }],
  }),
  lines({
    title: 'Webhooks received by outcome',
    description:
      'What providers sent: stored, duplicates, refused. Many bad signatures are an attack, or a secret that was rotated on one side only.',
    unit: 'ops',
    width: 8,
    queries: [{ expr: rate('source, outcome', 'hapax_webhooks_total'), legend: '{{source}} {{outcome}}' }],
  }),
]

export const effects: readonly Panel[] = [
  lines({
    title: 'External calls by state',
    description: 'Effects of leased consumers: begun, done, certainly not done, unknown.',
    unit: 'ops',
    width: 6,
    queries: [{ expr: rate('state', 'hapax_effects_total'), legend: '{{state}}' }],
  }),
  lines({
    title: 'Effects unknown',
    description: 'External calls that may or may not have happened and wait for a decision.',
    unit: 'short',
    decimals: 0,
    width: 6,
    limits: { bad: 1 },
    queries: [{ expr: state('consumer', 'hapax_effects_unknown'), legend: '{{consumer}}' }],
  }),
  lines({
    title: 'Unknown commits by resolution',
    description:
      'The connection was lost during COMMIT. Committed and not committed: looked up, nothing to do. Unresolved: the message is delivered again.',
    unit: 'short',
    width: 6,
    queries: [
      {
        expr: `sum by (resolved) (increase(${of('hapax_commit_unknown_total')}[$__rate_interval]))`,
        legend: '{{resolved}}',
      },
    ],
  }),
  lines({
    title: 'Leases lost',
    description:
      'Messages that another process took over because this one had been silent for too long: it was paused, or starved of CPU.',
    unit: 'ops',
    width: 6,
    queries: [{ expr: rate('consumer', 'hapax_lease_lost_total'), legend: '{{consumer}}' }],
  }),
]

/** A horizon that is infinite is shown as what it means; Grafana would print a number of centuries. */
const FOR_EVER_S = 100 * 365 * 86_400
const forEver = [{ type: 'range', options: { from: FOR_EVER_S, to: null, result: { text: 'for ever', index: 0 } } }]

export const retention: readonly Panel[] = [
  table(
    {
      title: 'Deduplication horizon',
      description:
        'How long receipts are kept, against how long the broker may deliver a message again. Where the second is longer, a late duplicate is processed.',
      unit: 'dtdurations',
      width: 12,
      queries: [
        {
          expr: `clamp_max(min by (consumer) (${of('hapax_dedup_horizon_seconds')}), ${FOR_EVER_S})`,
          legend: 'receipts kept',
        },
        { expr: `max by (consumer) (${of('hapax_redelivery_horizon_seconds')})`, legend: 'may come again' },
        { expr: `max by (consumer) (${of('hapax_receipts_oldest_seconds')})`, legend: 'oldest receipt' },
      ],
    },
    'consumer',
    { mappings: forEver },
  ),
  lines({
    title: 'Oldest receipt against its horizon',
    description: 'About 100 % or less: the cleanup keeps up. More, and growing: it does not.',
    unit: 'percentunit',
    width: 12,
    limits: { bad: 1.25 },
    queries: [
      {
        expr: `max by (consumer) (${of('hapax_receipts_oldest_seconds')}) / min by (consumer) (${of('hapax_dedup_horizon_seconds')})`,
        legend: '{{consumer}}',
      },
    ],
  }),
  lines({
    title: 'Receipts',
    description:
      'How many receipts there are, by the statistics of the database. It levels off when the cleanup deletes as many as arrive.',
    unit: 'short',
    width: 6,
    queries: [{ expr: state('', 'hapax_receipts_estimate'), legend: 'receipts' }],
  }),
  lines({
    title: 'Rows of the other tables',
    description: 'By the statistics of the database.',
    unit: 'short',
    width: 6,
    queries: [{ expr: state('table', 'hapax_rows_estimate'), legend: '{{table}}' }],
  }),
  lines({
    title: 'Deleted by the cleanup',
    description: 'Rows per second.',
    unit: 'ops',
    width: 6,
    queries: [{ expr: rate('what', 'hapax_cleaned_total'), legend: '{{what}}' }],
  }),
  lines({
    title: 'Last pass of the cleanup',
    description: 'How long ago it ended, and how long it took.',
    unit: 's',
    width: 6,
    queries: [
      { expr: `time() - max by (what) (${of('hapax_cleanup_last_pass_timestamp_seconds')})`, legend: '{{what}}, ago' },
      { expr: `max by (what) (${of('hapax_cleanup_pass_seconds')})`, legend: '{{what}}, took' },
    ],
  }),
]

export const health: readonly Panel[] = [
  timeline(
    {
      title: 'Database reached',
      description: 'Whether a process reaches its database.',
      unit: 'none',
      width: 8,
      queries: [{ expr: `min by (instance) (${of('hapax_store_up')})`, legend: '{{instance}}' }],
    },
    [
      [0, 'down', 'red'],
      [1, 'up', 'green'],
    ],
  ),
  lines({
    title: 'Workers by state',
    description:
      'Alive: its heartbeats arrive. Stuck: they arrive, and no handler can run. Dead: they no longer arrive; others have taken over.',
    unit: 'short',
    decimals: 0,
    width: 8,
    queries: [{ expr: state('state', 'hapax_workers'), legend: '{{state}}' }],
  }),
  lines({
    title: 'Age of the state',
    description: 'How long ago the database was asked what waits. One process asks for all, every 15 seconds.',
    unit: 's',
    width: 8,
    limits: { bad: 120 },
    queries: [{ expr: `min(${of('hapax_state_age_seconds')})`, legend: 'age' }],
  }),
  lines({
    title: 'Errors of workers',
    description: 'A part of a worker failed and went on. The logs say which, and why.',
    unit: 'ops',
    width: 8,
    queries: [{ expr: rate('instance', 'hapax_worker_errors_total'), legend: '{{instance}}' }],
  }),
  lines({
    title: 'Pool exhausted',
    description: 'Transactions waited for a connection, and none got one for a long time.',
    unit: 'ops',
    width: 8,
    queries: [{ expr: rate('instance', 'hapax_pool_exhausted_total'), legend: '{{instance}}' }],
  }),
  lines({
    title: 'Processes by version',
    description: 'Versions of hapax that run. More than one for long: a deployment has stopped halfway.',
    unit: 'short',
    decimals: 0,
    width: 8,
    queries: [{ expr: `count by (version) (${of('hapax_build_info')})`, legend: '{{version}}' }],
  }),
]
