import type { AuditView } from '../../api.ts'
import { type Filter, Filters } from '../parts/filters.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { Pager } from '../parts/pager.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Code, Cut, Link } from '../parts/text.tsx'
import { Time } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { usePoll } from '../state/poll.ts'
import { place } from '../state/router.ts'

const ACTIONS = [
  ...['retry', 'edit', 'discard', 'note', 'release', 'republish', 'settle', 'begin', 'pause', 'resume', 'cancel'],
  ...['add', 'change', 'remove', 'move', 'import', 'cleanup', 'purge', 'recount', 'sign-in', 'sign-out', 'look'],
]

const FILTERS: readonly Filter[] = [
  { name: 'actor', title: 'Who', kind: 'text' },
  { name: 'action', title: 'What', kind: 'choice', of: [['', 'all'], ...ACTIONS.map((each) => [each, each] as const)] },
  { name: 'scope', title: 'Consumer or relay', kind: 'text' },
  { name: 'since', title: 'Since', kind: 'time' },
  { name: 'until', title: 'Before', kind: 'time' },
]

/** What people have changed by hand, the newest first. */
export function Audit() {
  const params = place.value.query
  const given = Object.fromEntries(
    [...FILTERS.map(({ name }) => name), 'cursor'].map((name) => [name, params.get(name)]),
  )
  const polled = usePoll<AuditView>(`audit${query(given)}`)
  return (
    <Frame
      title="Audit log"
      lead="What people have changed by hand, here and by the command line."
      filters={<Filters filters={FILTERS} label="Which entries" />}
      polled={polled}
    >
      {({ rows, cursor }) => (
        <>
          {rows.length === 0 && cursor === null ? (
            <Empty title="No entry" command="npx hapax audit list">
              <p>Every change by a person is written here in its own transaction: who, what, when and why.</p>
            </Empty>
          ) : (
            <Table label="Audit log" columns={columns} rows={rows} keyOf={(row) => row.seq} />
          )}
          <Pager cursor={cursor} shown={rows.length} />
        </>
      )}
    </Frame>
  )
}

const columns: readonly Column<AuditView['rows'][number]>[] = [
  { title: 'When', kind: 'lead', cell: (row) => <Time at={row.at} /> },
  { title: 'Who', cell: (row) => <Cut text={row.actor} /> },
  { title: 'What', cell: (row) => <span class="tag">{row.action}</span> },
  { title: 'Of', cell: (row) => (row.scope === null ? <span class="dim">–</span> : <Cut text={row.scope} />) },
  {
    title: 'Message',
    cell: (row) =>
      row.id === null ? (
        <span class="dim">–</span>
      ) : (
        <Link
          to={
            row.source === null && row.type === null
              ? `operations/${encodeURIComponent(row.id)}`
              : `message${query({ id: row.id, source: row.source })}`
          }
        >
          <Code text={row.id} />
        </Link>
      ),
  },
  { title: 'Note', kind: 'grow', cell: (row) => <Cut text={row.note ?? ''} /> },
]
