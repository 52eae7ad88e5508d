// Every metric of hapax. Ids, keys, types, names of effects and numbers of attempts are never labels, so that the number of series does
// not grow with the messages.

/** A metric, as every monitoring system describes it. */
export interface Metric {
  readonly name: string
  readonly help: string
  readonly kind: 'counter' | 'histogram' | 'gauge'
  readonly unit:
    | 'messages'
    | 'attempts'
    | 'requests'
    | 'seconds'
    | 'keys'
    | 'workers'
    | 'rows'
    | 'calls'
    | 'commits'
    | 'errors'
    | 'none'
  readonly labels: readonly string[]
  /** Upper bounds, for histograms. */
  readonly buckets?: readonly number[]
  /** Whether it describes the database instead of this process: one process per database exports it. */
  readonly state?: true
}

/** From a quick statement to a handler that takes a minute. */
const DURATION: readonly number[] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
/** From a hand-over in memory to a day of backlog. */
const LAG: readonly number[] = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400,
]
/** From the first one to the end of a long back-off. */
const ATTEMPTS: readonly number[] = [1, 2, 3, 5, 10, 20, 50]

const counter = (name: string, unit: Metric['unit'], labels: readonly string[], help: string): Metric => ({
  name,
  help,
  kind: 'counter',
  unit,
  labels,
})

const histogram = (name: string, buckets: readonly number[], labels: readonly string[], help: string): Metric => ({
  name,
  help,
  kind: 'histogram',
  unit: buckets === ATTEMPTS ? 'attempts' : 'seconds',
  labels,
  buckets,
})

const gauge = (name: string, unit: Metric['unit'], labels: readonly string[], help: string): Metric => ({
  name,
  help,
  kind: 'gauge',
  unit,
  labels,
})

const state = (name: string, unit: Metric['unit'], labels: readonly string[], help: string): Metric => ({
  ...gauge(name, unit, labels, help),
  state: true,
})

type MetricName =
  | 'messages'
  | 'attempts'
  | 'process'
  | 'check'
  | 'poolWait'
  | 'lag'
  | 'mismatches'
  | 'published'
  | 'relayed'
  | 'relayLag'
  | 'relayFailures'
  | 'relayUp'
  | 'commitUnknown'
  | 'effects'
  | 'leaseLost'
  | 'httpRequests'
  | 'httpRequest'
  | 'webhooks'
  | 'cleaned'
  | 'cleanupPass'
  | 'cleanupLast'
  | 'receiptsOldest'
  | 'poolExhausted'
  | 'workerErrors'
  | 'storeUp'
  | 'dedupHorizon'
  | 'redeliveryHorizon'
  | 'buildInfo'
  | 'inboxMessages'
  | 'inboxOldest'
  | 'outboxMessages'
  | 'outboxOldest'
  | 'heldKeys'
  | 'failedMessages'
  | 'effectsUnknown'
  | 'workers'
  | 'consumerWorkers'
  | 'relayWorkers'
  | 'receiptsEstimate'
  | 'rowsEstimate'
  | 'stateAge'

/** The metrics, by the names that the code uses. */
export const METRICS: Readonly<Record<MetricName, Metric>> = {
  messages: counter(
    'hapax_messages_total',
    'messages',
    ['consumer', 'outcome'],
    'Deliveries and attempts of this process, by what became of them.',
  ),
  attempts: histogram(
    'hapax_attempts',
    ATTEMPTS,
    ['consumer'],
    'How many attempts a message took until it was processed, or failed for good.',
  ),
  process: histogram(
    'hapax_process_seconds',
    DURATION,
    ['consumer'],
    'From the first statement to the commit, for each processed message. A group shares it.',
  ),
  check: histogram(
    'hapax_check_seconds',
    DURATION,
    ['consumer'],
    'How long the check for duplicates took: opening the transaction and writing the receipt, or claiming the row.',
  ),
  poolWait: histogram(
    'hapax_pool_wait_seconds',
    DURATION,
    ['consumer'],
    'How long processed messages waited for a connection.',
  ),
  lag: histogram('hapax_lag_seconds', LAG, ['consumer'], 'From publish to commit, by the clock of the database.'),
  mismatches: counter(
    'hapax_mismatches_total',
    'messages',
    ['consumer'],
    'Duplicates that came with another payload than the first delivery.',
  ),
  published: counter('hapax_published_total', 'messages', [], 'Messages that this process published and committed.'),
  relayed: counter('hapax_relayed_total', 'messages', ['relay'], 'Messages of the outbox that the broker confirmed.'),
  relayLag: histogram(
    'hapax_relay_lag_seconds',
    LAG,
    ['relay'],
    'From publish to the confirm of the broker, by the clock of the database.',
  ),
  relayFailures: counter(
    'hapax_relay_failures_total',
    'errors',
    ['relay', 'kind'],
    'Messages that the broker did not take (retrying), refused for good (failed) or had no queue for (dropped), and tries that did not reach the broker (down).',
  ),
  relayUp: gauge('hapax_relay_up', 'none', ['relay'], 'Whether this process reaches the broker of the relay.'),
  commitUnknown: counter(
    'hapax_commit_unknown_total',
    'commits',
    ['consumer', 'resolved'],
    'Commits during which the connection broke, by what became of them.',
  ),
  effects: counter(
    'hapax_effects_total',
    'calls',
    ['consumer', 'state'],
    'Outside calls of leased handlers, by what is known of them.',
  ),
  leaseLost: counter(
    'hapax_lease_lost_total',
    'messages',
    ['consumer'],
    'Messages that another process took over because this one had been silent for too long.',
  ),
  httpRequests: counter(
    'hapax_http_requests_total',
    'requests',
    ['scope', 'outcome'],
    'HTTP requests of this process, by what became of them.',
  ),
  httpRequest: histogram(
    'hapax_http_request_seconds',
    DURATION,
    ['scope'],
    'From the arrival of an HTTP request to its response, with what it waited for.',
  ),
  webhooks: counter(
    'hapax_webhooks_total',
    'requests',
    ['source', 'outcome'],
    'Webhooks that this process received, by what became of them.',
  ),
  cleaned: counter('hapax_cleaned_total', 'rows', ['what'], 'Rows that the cleanup of this process deleted.'),
  cleanupPass: gauge('hapax_cleanup_pass_seconds', 'seconds', ['what'], 'How long the last pass of the cleanup took.'),
  cleanupLast: gauge(
    'hapax_cleanup_last_pass_timestamp_seconds',
    'seconds',
    ['what'],
    'When the last pass of the cleanup ended.',
  ),
  receiptsOldest: gauge(
    'hapax_receipts_oldest_seconds',
    'seconds',
    ['consumer'],
    'The age of the oldest receipt that the last whole pass of the cleanup left.',
  ),
  poolExhausted: counter(
    'hapax_pool_exhausted_total',
    'errors',
    [],
    'How often transactions waited for a connection and none got one in time.',
  ),
  workerErrors: counter('hapax_worker_errors_total', 'errors', [], 'Errors after which a worker continued.'),
  storeUp: gauge('hapax_store_up', 'none', [], 'Whether the database answers.'),
  dedupHorizon: gauge(
    'hapax_dedup_horizon_seconds',
    'seconds',
    ['consumer'],
    'How long receipts are kept: a duplicate that comes later is taken as a new message. +Inf: for ever.',
  ),
  redeliveryHorizon: gauge(
    'hapax_redelivery_horizon_seconds',
    'seconds',
    ['consumer'],
    'The longest time after which the broker or a retry may deliver a message again, as far as it is known.',
  ),
  buildInfo: gauge('hapax_build_info', 'none', ['version'], 'The version of hapax; always 1.'),

  inboxMessages: state(
    'hapax_inbox_messages',
    'messages',
    ['consumer', 'state'],
    'Messages in the inbox: waiting, waiting for another attempt (retrying), or holding their key (held). Large numbers are estimates.',
  ),
  inboxOldest: state(
    'hapax_inbox_oldest_seconds',
    'seconds',
    ['consumer'],
    'The age of the oldest message in the inbox that is not held; 0 if there is none.',
  ),
  outboxMessages: state(
    'hapax_outbox_messages',
    'messages',
    ['relay', 'state'],
    'Messages in the outbox: waiting, or holding their key (held). Large numbers are estimates.',
  ),
  outboxOldest: state(
    'hapax_outbox_oldest_seconds',
    'seconds',
    ['relay'],
    'The age of the oldest message in the outbox that is not held; 0 if there is none.',
  ),
  heldKeys: state(
    'hapax_held_keys',
    'keys',
    ['origin', 'scope'],
    'Keys that wait behind a message that failed for good. The scope is the consumer or the relay.',
  ),
  failedMessages: state(
    'hapax_failed_messages',
    'messages',
    ['origin', 'scope', 'reason'],
    'Messages in the failed store. The scope is the consumer or the relay.',
  ),
  effectsUnknown: state(
    'hapax_effects_unknown',
    'calls',
    ['consumer'],
    'Outside calls of which nobody knows whether they happened.',
  ),
  workers: state('hapax_workers', 'workers', ['state'], 'Workers on this database.'),
  consumerWorkers: state('hapax_consumer_workers', 'workers', ['consumer'], 'Live workers that serve the consumer.'),
  relayWorkers: state('hapax_relay_workers', 'workers', ['relay'], 'Live workers that serve the relay.'),
  receiptsEstimate: state('hapax_receipts_estimate', 'rows', [], 'About how many receipts there are.'),
  rowsEstimate: state('hapax_rows_estimate', 'rows', ['table'], 'About how many rows the other tables have.'),
  stateAge: state('hapax_state_age_seconds', 'seconds', [], 'How long ago the state of the database was read.'),
}
