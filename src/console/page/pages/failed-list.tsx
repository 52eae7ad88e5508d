import type { MessagesView, RowView } from '../../api.ts'
import { bulk } from '../changes/bulk.tsx'
import { retryOne } from '../changes/rows.tsx'
import { Do } from '../parts/buttons.tsx'
import { needsCheck } from '../parts/checked.tsx'
import { Filters } from '../parts/filters.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { Pager } from '../parts/pager.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Code, Cut, ErrorLine, Link, State } from '../parts/text.tsx'
import { Time } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { usePoll } from '../state/poll.ts'
import { place } from '../state/router.ts'
import { FAILED_FILTERS, failedPath, whereOf } from './failed.tsx'

/** Failed messages one by one, the newest first. */
export function FailedList() {
  const params = place.value.query
  const where = whereOf(params)
  const polled = usePoll<MessagesView>(`failed${query({ ...where, cursor: params.get('cursor') })}`)
  return (
    <Frame
      title="Failed messages"
      lead={<Link to={failedPath(where)}>Back to the groups</Link>}
      tools={
        <Do needs="operator" action={() => bulk('retry', where)}>
          Retry all that match …
        </Do>
      }
      filters={<Filters filters={FAILED_FILTERS} label="Which failed messages" />}
      polled={polled}
    >
      {({ rows, cursor }) => (
        <>
          {rows.length === 0 && cursor === null ? (
            <Empty title="No failed message matches">
              <p>
                They may have been retried or discarded: the <Link to="audit">audit log</Link> says by whom.
              </p>
            </Empty>
          ) : (
            <Table label="Failed messages" columns={columns} rows={rows} keyOf={(row) => row.seq ?? row.id} />
          )}
          <Pager cursor={cursor} shown={rows.length} />
        </>
      )}
    </Frame>
  )
}

const columns: readonly Column<RowView>[] = [
  {
    title: 'Number',
    kind: 'lead',
    cell: (row) => <Link to={`failed/${encodeURIComponent(row.seq ?? '')}`}>{row.seq}</Link>,
  },
  { title: 'Failed', cell: (row) => <Time at={row.at} /> },
  { title: 'Of', cell: (row) => <Cut text={row.scope} /> },
  { title: 'Type', cell: (row) => <Code text={row.type} /> },
  { title: 'Id', cell: (row) => <Code text={row.id} /> },
  { title: 'State', cell: (row) => <State name={row.state} /> },
  { title: 'Attempts', align: 'right', cell: (row) => row.attempts },
  { title: 'Error', kind: 'below', cell: ({ error }) => error && <ErrorLine error={error} /> },
  {
    title: 'Actions',
    kind: 'actions',
    cell: ({ seq, type, id, scope, error }) =>
      seq === null ? null : (
        <Do
          needs="operator"
          label={`Retry ${seq}`}
          action={() => retryOne({ seq, type, id, scope, unchecked: needsCheck(error) })}
        >
          Retry …
        </Do>
      ),
  },
]
