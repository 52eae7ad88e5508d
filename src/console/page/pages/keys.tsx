import type { KeysView } from '../../api.ts'
import { releaseKey } from '../changes/rows.tsx'
import { Do } from '../parts/buttons.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Code, Cut, Link } from '../parts/text.tsx'
import { Age } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { count } from '../state/format.ts'
import { usePoll } from '../state/poll.ts'

type Held = KeysView['keys'][number]

/** Keys whose messages wait behind one that failed for good. */
export function Keys() {
  const polled = usePoll<KeysView>('keys')
  return (
    <Frame
      title="Held keys"
      lead="A message failed for good, and the later ones of its key wait, so that their order is kept. Retry it, discard it, or release the key."
      polled={polled}
    >
      {({ keys, more }) =>
        keys.length === 0 ? (
          <Empty title="No key is held" command="npx hapax keys list">
            <p>
              Keys are held only for consumers and relays that keep the order of a key (order: 'wait'). Then a message
              that fails for good holds its key, and it is listed here.
            </p>
          </Empty>
        ) : (
          <>
            <Table
              label="Held keys"
              columns={columns}
              rows={keys}
              keyOf={(each) => `${each.origin} ${each.scope} ${each.key}`}
            />
            {more ? <p class="dim">More keys than these {count(keys.length)} are held.</p> : null}
          </>
        )
      }
    </Frame>
  )
}

const columns: readonly Column<Held>[] = [
  { title: 'Key', kind: 'lead', cell: (each) => <Code text={each.key} /> },
  { title: 'Of', cell: (each) => <Cut text={each.origin === 'outbox' ? `relay ${each.scope}` : each.scope} /> },
  { title: 'Held for', align: 'right', cell: (each) => <Age since={each.heldAt} /> },
  {
    title: 'Waiting behind',
    align: 'right',
    cell: (each) => (
      <Link to={`messages${query({ place: each.origin, scope: each.scope, key: each.key })}`}>
        {count(each.waiting)}
      </Link>
    ),
  },
  {
    title: 'Held by',
    kind: 'grow',
    cell: (each) =>
      each.seq === null ? (
        <Code text={each.id} />
      ) : (
        <Link to={`failed/${encodeURIComponent(each.seq)}`}>
          <Code text={each.id} />
        </Link>
      ),
  },
  {
    title: 'Actions',
    kind: 'actions',
    cell: (each) => (
      <Do needs="operator" label={`Release ${each.key}`} action={() => releaseKey(each)}>
        Release …
      </Do>
    ),
  },
]
