import type { ConsumerView, OverviewView, PauseView } from '../../api.ts'
import { pauseOrResume } from '../changes/rows.tsx'
import { Do } from '../parts/buttons.tsx'
import { Spark } from '../parts/chart.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Cut, Link, State } from '../parts/text.tsx'
import { Age, Time } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { count } from '../state/format.ts'
import { usePoll } from '../state/poll.ts'
import { seriesOf, sum } from '../state/series.ts'
import { failedPath } from './failed.tsx'

/** All consumers, with what waits for them. */
export function Consumers() {
  const polled = usePoll<OverviewView>('overview')
  return (
    <Frame title="Consumers" lead="Each consumer takes every message it wants once." polled={polled}>
      {(view) =>
        view.consumers.length === 0 ? (
          <Empty title="No consumer is known yet" command="npx hapax consumers list">
            <p>
              A consumer appears here when a worker serves it, or when a message was stored for it. The command line
              lists them, too:
            </p>
          </Empty>
        ) : (
          <ConsumerTable view={view} detailed />
        )
      }
    </Frame>
  )
}

/** Who paused something, when and why. */
export function Paused({ pause }: { readonly pause: PauseView }) {
  return (
    <span class="paused">
      <State name="paused" /> by <bdi>{pause.actor}</bdi> <Time at={pause.at} />
      {pause.note === null ? null : (
        <>
          : <bdi>{pause.note}</bdi>
        </>
      )}
    </span>
  )
}

/** A number that leads to the rows, and that is dim where there are none. */
export function RowCount({
  value,
  to,
  tone,
  estimated,
}: {
  value: number
  to: string
  tone?: string
  estimated?: boolean
}) {
  if (value === 0) return <span class="dim">0</span>
  return (
    <Link to={to} class={tone ?? ''}>
      {count(value, estimated)}
    </Link>
  )
}

/** How many workers serve something: none is wrong only where messages wait for one. */
export function Serving({ workers, unserved }: Pick<ConsumerView, 'workers' | 'unserved'>) {
  if (unserved) return <strong class="bad">none</strong>
  return workers === 0 ? <span class="dim">0</span> : <span>{count(workers)}</span>
}

export function ConsumerTable({
  view,
  detailed = false,
}: {
  readonly view: OverviewView
  readonly detailed?: boolean
}) {
  const list = (each: ConsumerView, more: Record<string, string> = {}): string =>
    `messages${query({ place: 'inbox', scope: each.name, ...more })}`
  const columns: readonly Column<ConsumerView>[] = [
    {
      title: 'Consumer',
      kind: 'lead',
      cell: (each) => (
        <>
          <Link to={list(each)}>{each.name}</Link>
          {each.ordered ? <span class="tag">in order</span> : null}
          {each.paused === null ? null : <Paused pause={each.paused} />}
        </>
      ),
    },
    {
      title: 'Waiting',
      align: 'right',
      cell: (each) => <RowCount value={each.waiting} to={list(each)} estimated={each.estimated} />,
    },
    { title: 'Oldest', align: 'right', cell: (each) => <Age since={each.oldestAt} /> },
    {
      title: 'Retrying',
      align: 'right',
      cell: (each) => <RowCount value={each.retrying} to={list(each, { state: 'retrying' })} tone="warn" />,
    },
    {
      title: 'Held',
      align: 'right',
      cell: (each) => <RowCount value={each.held} to="keys" tone="warn" />,
    },
    {
      title: 'Failed',
      align: 'right',
      cell: (each) => (
        <RowCount
          value={each.failed}
          to={failedPath({ origin: 'inbox', scope: each.name })}
          tone="bad"
          estimated={each.estimated}
        />
      ),
    },
    {
      title: 'Workers',
      align: 'right',
      cell: (each) => <Serving {...each} />,
    },
    {
      title: 'Processed, last hour',
      cell: (each) => (
        <Spark
          values={sum(seriesOf(view.history, 'inbox', each.name), 'done')}
          tone="accent"
          label={`Messages of ${each.name} per minute`}
        />
      ),
    },
    ...(detailed ? details : []),
  ]
  return <Table label="Consumers" columns={columns} rows={view.consumers} keyOf={(each) => each.name} />
}

const details: readonly Column<ConsumerView>[] = [
  { title: 'Types', kind: 'grow', cell: (each) => <Cut text={each.types.join(', ') || 'all'} /> },
  {
    title: 'Actions',
    kind: 'actions',
    cell: (each) => (
      <Do
        needs="operator"
        action={() => pauseOrResume('consumers', each.name, each.paused === null ? 'pause' : 'resume')}
      >
        {each.paused === null ? 'Pause …' : 'Resume …'}
      </Do>
    ),
  },
]
