import type { OverviewView, RelayView } from '../../api.ts'
import { pauseOrResume } from '../changes/rows.tsx'
import { Do } from '../parts/buttons.tsx'
import { Spark } from '../parts/chart.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Cut, ErrorLine, Link, State } from '../parts/text.tsx'
import { Age } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { usePoll } from '../state/poll.ts'
import { seriesOf, sum } from '../state/series.ts'
import { Paused, RowCount, Serving } from './consumers.tsx'
import { failedPath } from './failed.tsx'

/** All relays, with what waits to be sent. */
export function Relays() {
  const polled = usePoll<OverviewView>('overview')
  return (
    <Frame title="Relays" lead="A relay sends what transactions have put into the outbox." polled={polled}>
      {(view) =>
        view.relays.length === 0 ? (
          <Empty title="No relay is known yet" command="npx hapax relays list">
            <p>A relay appears here when a worker runs it, or when a message was published through it.</p>
          </Empty>
        ) : (
          <RelayTable view={view} detailed />
        )
      }
    </Frame>
  )
}

export function RelayTable({ view, detailed = false }: { readonly view: OverviewView; readonly detailed?: boolean }) {
  const list = (each: RelayView): string => `messages${query({ place: 'outbox', scope: each.name })}`
  const columns: readonly Column<RelayView>[] = [
    {
      title: 'Relay',
      kind: 'lead',
      cell: (each) => (
        <>
          <Link to={list(each)}>{each.name}</Link>
          {each.destination === null ? null : <span class="tag">to {each.destination}</span>}
          {each.down === 0 ? null : <Down relay={each} />}
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
      cell: (each) => (
        <RowCount
          value={each.retrying}
          to={`messages${query({ place: 'outbox', scope: each.name, state: 'retrying' })}`}
          tone="warn"
          estimated={each.estimated}
        />
      ),
    },
    { title: 'Held', align: 'right', cell: (each) => <RowCount value={each.held} to="keys" tone="warn" /> },
    {
      title: 'Failed',
      align: 'right',
      cell: (each) => (
        <RowCount value={each.failed} to={failedPath({ origin: 'outbox', scope: each.name })} tone="bad" />
      ),
    },
    {
      title: 'Workers',
      align: 'right',
      cell: (each) => <Serving {...each} />,
    },
    {
      title: 'Sent, last hour',
      cell: (each) => (
        <Spark
          values={sum(seriesOf(view.history, 'outbox', each.name), 'done')}
          tone="good"
          label={`Messages sent by ${each.name} per minute`}
        />
      ),
    },
    ...(detailed ? [actions] : []),
    { title: 'Last error', kind: 'below', cell: ({ error }) => error && <ErrorLine error={error} /> },
  ]
  return <Table label="Relays" columns={columns} rows={view.relays} keyOf={(each) => each.name} />
}

/** That workers cannot reach the destination: all of them, or some. */
function Down({ relay: { down, reason, workers } }: { readonly relay: RelayView }) {
  return (
    <span class="paused">
      <State name="down" />{' '}
      {down === workers
        ? 'no worker reaches its destination'
        : `${down} of ${workers} workers do not reach its destination`}
      {reason === null ? null : <Cut text={reason} />}
    </span>
  )
}

const actions: Column<RelayView> = {
  title: 'Actions',
  kind: 'actions',
  cell: (each) => (
    <Do needs="operator" action={() => pauseOrResume('relays', each.name, each.paused === null ? 'pause' : 'resume')}>
      {each.paused === null ? 'Pause …' : 'Resume …'}
    </Do>
  ),
}
