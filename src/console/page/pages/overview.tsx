import type { HealthView, OverviewView } from '../../api.ts'
import { Chart } from '../parts/chart.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { OperationCard } from '../parts/operation.tsx'
import { Link, State } from '../parts/text.tsx'
import { Age } from '../parts/time.tsx'
import { count, span } from '../state/format.ts'
import { usePoll } from '../state/poll.ts'
import { most, seriesOf, sum } from '../state/series.ts'
import { ConsumerTable } from './consumers.tsx'
import { failedPath } from './failed.tsx'
import { Findings } from './health.tsx'
import { RelayTable } from './relays.tsx'

/** What is going on, at a glance. */
export function Overview() {
  const polled = usePoll<OverviewView>('overview')
  return (
    <Frame title="Overview" polled={polled}>
      {(view) => (
        <>
          <Problems />
          <Figures view={view} />
          {view.operations.filter(isOpen).map((operation) => (
            <OperationCard key={operation.id} operation={operation} />
          ))}
          <Failures view={view} />
          <Charts view={view} />
          {view.consumers.length + view.relays.length === 0 ? (
            <Empty title="No consumer or relay is known yet" command="npx hapax demo --console">
              <p>
                Consumers and relays appear here as soon as a worker runs, or a message is stored. To see this console
                with something in it, start the demo:
              </p>
            </Empty>
          ) : null}
          {view.consumers.length === 0 ? null : (
            <section>
              <h2>Consumers</h2>
              <ConsumerTable view={view} />
            </section>
          )}
          {view.relays.length === 0 ? null : (
            <section>
              <h2>Relays</h2>
              <RelayTable view={view} />
            </section>
          )}
        </>
      )}
    </Frame>
  )
}

const MOST_PROBLEMS = 4
/** The checks cost the database more than the rest of this page. */
const CHECK_MS = 10_000

/** What `hapax doctor` finds to be wrong, worst first. */
function Problems() {
  const { data, problem } = usePoll<HealthView>('health', { main: false, everyMs: CHECK_MS })
  if (data.value === undefined) {
    return problem.value === undefined ? null : <p class="warn">The checks failed: {problem.value.message}</p>
  }
  const { findings } = data.value
  const worst = ['error', 'warning'].flatMap((level) => findings.filter((each) => each.level === level))
  if (worst.length === 0) return null
  return (
    <section>
      <h2>What is wrong</h2>
      <Findings findings={worst.slice(0, MOST_PROBLEMS)} />
      {worst.length > MOST_PROBLEMS ? <Link to="health">All {count(worst.length)} findings</Link> : null}
    </section>
  )
}

function isOpen({ state }: { readonly state: string }): boolean {
  return state === 'running' || state === 'paused'
}

interface FigureProps {
  readonly title: string
  readonly value: string
  readonly tone?: string | undefined
  readonly to: string
}

function Figure({ title, value, tone, to }: FigureProps) {
  return (
    <Link to={to} class={`figure ${tone ?? ''}`}>
      <span class="figure-value">{value}</span>
      <span class="figure-title">{title}</span>
    </Link>
  )
}

function Figures({ view }: { readonly view: OverviewView }) {
  const { consumers, relays, workers } = view
  const both = [...consumers, ...relays]
  const add = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
  const failed = add(both.map((each) => each.failed))
  const held = add(both.map((each) => each.held))
  const unknown = add(consumers.map((each) => each.unknownEffects))
  const waiting = add(both.map((each) => each.waiting))
  const estimated = both.some((each) => each.estimated)
  const alone = both.filter((each) => each.unserved)
  const unserved =
    add(alone.map((each) => each.waiting)) + add(consumers.map((each) => (each.unserved ? each.retrying : 0)))
  const oldest = both
    .map((each) => each.oldestAt)
    .filter((at) => at !== null)
    .sort()[0]
  return (
    <div class="figures">
      <Figure title="failed" value={count(failed, estimated)} tone={failed > 0 ? 'bad' : ''} to="failed" />
      <Figure title="waiting" value={count(waiting, estimated)} to="messages" />
      <Link to="messages" class="figure">
        <span class="figure-value">
          <Age since={oldest ?? null} />
        </span>
        <span class="figure-title">oldest waits</span>
      </Link>
      <Figure title="held keys" value={count(held)} tone={held > 0 ? 'warn' : ''} to="keys" />
      <Figure title="unknown effects" value={count(unknown)} tone={unknown > 0 ? 'warn' : ''} to="effects" />
      <Figure
        title={workersTitle(workers, count(unserved, estimated))}
        value={count(workers.alive)}
        tone={unserved > 0 ? 'bad' : workers.stuck > 0 ? 'warn' : ''}
        to="workers"
      />
    </div>
  )
}

function workersTitle({ stuck, dead }: OverviewView['workers'], unserved: string): string {
  if (unserved !== '0') return `workers, none for ${unserved} messages`
  return stuck + dead > 0 ? `workers, ${stuck + dead} stuck or dead` : 'workers'
}

const MOST_REASONS = 5

function Failures({ view }: { readonly view: OverviewView }) {
  const groups = [...view.failed].sort((a, b) => b.count - a.count)
  if (groups.length === 0) return null
  return (
    <section>
      <h2>What failed</h2>
      <ul class="reasons">
        {groups.slice(0, MOST_REASONS).map(({ origin, scope, reason, count: number, estimated }) => (
          <li key={`${origin} ${scope} ${reason}`}>
            <Link to={failedPath({ origin, scope, reason })}>
              <strong>{count(number, estimated)}</strong> of {origin === 'outbox' ? `relay ${scope}` : scope}
            </Link>{' '}
            <State name={reason} />
          </li>
        ))}
      </ul>
      {groups.length > MOST_REASONS ? <Link to="failed">All {count(groups.length)} reasons</Link> : null}
    </section>
  )
}

function Charts({ view: { history } }: { readonly view: OverviewView }) {
  const [inbox, outbox] = [seriesOf(history, 'inbox'), seriesOf(history, 'outbox')]
  if (history.series.length === 0) return null
  const { minutes, series } = history
  return (
    <section>
      <h2>The last hour, by minute</h2>
      <div class="charts">
        <Chart
          title="Throughput"
          minutes={minutes}
          lines={[
            { label: 'processed', values: sum(inbox, 'done'), tone: 'accent' },
            { label: 'sent', values: sum(outbox, 'done'), tone: 'good' },
          ]}
        />
        <Chart
          title="Trouble"
          minutes={minutes}
          lines={[
            { label: 'retried', values: sum(series, 'retried'), tone: 'warn' },
            { label: 'failed', values: sum(series, 'failed'), tone: 'bad' },
          ]}
        />
        <Chart
          title="Time from publish to effect"
          minutes={minutes}
          lines={[{ label: 'mean', values: most(inbox, 'lagMs'), tone: 'accent' }]}
          format={shortSpan}
        />
        <Chart
          title="Waiting"
          minutes={minutes}
          lines={[
            { label: 'inbox', values: sum(inbox, 'waiting'), tone: 'accent' },
            { label: 'outbox', values: sum(outbox, 'waiting'), tone: 'good' },
          ]}
        />
      </div>
    </section>
  )
}

function shortSpan(ms: number): string {
  return ms >= 60_000 ? span(ms).replace(/ \d+ s$/, '') : ms >= 1_000 ? `${(ms / 1_000).toFixed(1)} s` : span(ms)
}
