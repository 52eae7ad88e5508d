import type { MessagesView, Place, RowView } from '../../api.ts'
import { republish, retryAllNow, retryNow, retryOne } from '../changes/rows.tsx'
import { Do } from '../parts/buttons.tsx'
import { needsCheck } from '../parts/checked.tsx'
import { type Filter, Filters } from '../parts/filters.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { Pager } from '../parts/pager.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Code, Cut, ErrorLine, Link, State } from '../parts/text.tsx'
import { Time } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { usePoll } from '../state/poll.ts'
import { place } from '../state/router.ts'

const PLACES: readonly (readonly [value: Place, title: string])[] = [
  ['inbox', 'Inbox: waits for a consumer'],
  ['outbox', 'Outbox: waits to be sent'],
  ['failed', 'Failed for good'],
  ['sent', 'Sent and kept'],
  ['receipts', 'Processed (receipts)'],
]

/** Which conditions a place knows. */
const CONDITIONS: Readonly<Record<Place, readonly string[]>> = {
  inbox: ['scope', 'type', 'key', 'id', 'state', 'since', 'until'],
  outbox: ['scope', 'type', 'key', 'id', 'state', 'since', 'until'],
  failed: ['scope', 'type', 'since', 'until'],
  sent: ['scope', 'type', 'since', 'until'],
  receipts: ['scope', 'since', 'until'],
}

const FILTERS: readonly Filter[] = [
  { name: 'scope', title: 'Consumer or relay', kind: 'text' },
  { name: 'type', title: 'Type', kind: 'text' },
  { name: 'key', title: 'Key', kind: 'text', exact: true },
  { name: 'id', title: 'Id', kind: 'text', exact: true },
  {
    name: 'state',
    title: 'State',
    kind: 'choice',
    of: [
      ['', 'all'],
      ['waiting', 'waiting'],
      ['retrying', 'retrying'],
      ['held', 'held'],
      ['leased', 'in hand'],
    ],
  },
  { name: 'since', title: 'Since', kind: 'time' },
  { name: 'until', title: 'Before', kind: 'time' },
]

/** Messages by place, consumer, type, key, id, state and time; the newest first. */
export function Messages() {
  const params = place.value.query
  const where = PLACES.find(([value]) => value === params.get('place'))?.[0] ?? 'inbox'
  const known = CONDITIONS[where]
  const given = Object.fromEntries(known.map((name) => [name, params.get(name)]))
  const polled = usePoll<MessagesView>(`messages${query({ place: where, ...given, cursor: params.get('cursor') })}`)
  const filters: readonly Filter[] = [
    { name: 'place', title: 'Where', kind: 'choice', of: PLACES },
    ...FILTERS.filter(({ name }) => known.includes(name)),
  ]
  return (
    <Frame
      title="Messages"
      lead="Whole ids are found faster by the search above: it looks in every place at once."
      tools={<Tools where={where} given={given} some={(polled.data.value?.rows.length ?? 0) > 0} />}
      filters={<Filters filters={filters} label="Which messages" />}
      polled={polled}
    >
      {({ rows, cursor }) => (
        <>
          {rows.length === 0 && cursor === null ? (
            <Nothing where={where} filtered={Object.values(given).some((value) => value !== null)} />
          ) : (
            <Rows rows={rows} />
          )}
          <Pager cursor={cursor} shown={rows.length} />
        </>
      )}
    </Frame>
  )
}

interface ToolsProps {
  readonly where: Place
  readonly given: Readonly<Record<string, string | null>>
  readonly some: boolean
}

function Tools({ where, given, some }: ToolsProps) {
  if ((where !== 'inbox' && where !== 'outbox') || given['state'] !== 'retrying' || !some) return null
  const { state: _, ...others } = given
  const conditions = Object.fromEntries(
    Object.entries(others).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  )
  return (
    <Do needs="operator" action={() => retryAllNow([where], conditions)}>
      Retry all that match now …
    </Do>
  )
}

const WHY_EMPTY: Readonly<Record<Place, string>> = {
  inbox: 'Nothing waits for a consumer. A message is here while it is stored and not processed yet.',
  outbox:
    'Nothing waits to be sent. A message is here between the commit of its transaction and the broker’s confirmation.',
  failed: 'Nothing has failed for good.',
  sent: 'No sent message is kept. Relays keep what they have sent only if they are told to (keepSentMs).',
  receipts: 'No receipt is kept. Each message that a consumer has processed leaves one, so that it is processed once.',
}

function Nothing({ where, filtered }: { readonly where: Place; readonly filtered: boolean }) {
  return (
    <Empty title={filtered ? 'No message matches' : 'There is nothing here'} command="npx hapax status">
      <p>{filtered ? 'Change the conditions above, or look in another place.' : WHY_EMPTY[where]}</p>
    </Empty>
  )
}

/** A table of rows, wherever they are. */
export function Rows({ rows, due = false }: { readonly rows: readonly RowView[]; readonly due?: boolean }) {
  const columns: readonly Column<RowView>[] = [
    {
      title: 'Id',
      kind: 'lead',
      cell: (row) => (
        <Link to={`message${query({ id: row.id, source: row.source })}`}>
          <Code text={row.id} />
        </Link>
      ),
    },
    ...(due ? [{ title: 'Next attempt', cell: (row: RowView) => <Time at={row.dueAt} /> }] : []),
    { title: 'Since', cell: (row) => <Time at={row.at} /> },
    { title: 'Of', cell: (row) => <Cut text={row.scope} /> },
    { title: 'Type', cell: (row) => <Code text={row.type} /> },
    { title: 'Key', cell: (row) => (row.key === null ? <span class="dim">–</span> : <Code text={row.key} />) },
    { title: 'State', cell: (row) => <State name={row.state} /> },
    { title: 'Attempts', align: 'right', cell: (row) => row.attempts ?? '–' },
    { title: 'Last error', kind: 'below', cell: ({ error }) => error && <ErrorLine error={error} /> },
    { title: 'Actions', kind: 'actions', cell: (row) => <RowAction row={row} /> },
  ]
  return (
    <Table
      label="Messages"
      columns={columns}
      rows={rows}
      keyOf={(row) => `${row.place} ${row.seq} ${row.scope} ${row.source} ${row.id}`}
    />
  )
}

function RowAction({ row: { place: where, seq, type, id, scope, state, error } }: { readonly row: RowView }) {
  if (seq === null) return null
  const row = { seq, type, id, scope, unchecked: needsCheck(error) }
  switch (where) {
    case 'failed':
      return (
        <Do needs="operator" label={`Retry ${seq}`} action={() => retryOne(row)}>
          Retry …
        </Do>
      )
    case 'sent':
      return (
        <Do needs="operator" label={`Send ${seq} again`} action={() => republish(row)}>
          Send again …
        </Do>
      )
    case 'inbox':
    case 'outbox':
      return state !== 'retrying' ? null : (
        <Do needs="operator" label={`Retry now ${seq}`} action={() => retryNow(where, row)}>
          Retry now …
        </Do>
      )
    default:
      return null
  }
}
