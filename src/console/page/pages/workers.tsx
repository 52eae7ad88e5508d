import type { WorkersView, WorkerView } from '../../api.ts'
import { Empty, Frame } from '../parts/frame.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Code, Cut, State } from '../parts/text.tsx'
import { Age } from '../parts/time.tsx'
import { count, span } from '../state/format.ts'
import { usePoll } from '../state/poll.ts'

/** The processes that work, and which lanes are theirs. */
export function Workers() {
  const polled = usePoll<WorkersView>('workers')
  return (
    <Frame
      title="Workers"
      lead="Lanes divide the keys of a consumer or relay between workers: messages of one key are worked on by one of them at a time."
      polled={polled}
    >
      {({ workers }) =>
        workers.length === 0 ? (
          <Empty title="No worker has reported" command="npx hapax work">
            <p>
              Without a worker, what is stored waits and nothing is sent. A worker is made by{' '}
              <code>hapax.worker().start()</code> in your application, or by the command line:
            </p>
          </Empty>
        ) : (
          <Table label="Workers" columns={columns} rows={workers} keyOf={(each) => each.id} />
        )
      }
    </Frame>
  )
}

const columns: readonly Column<WorkerView>[] = [
  {
    title: 'Worker',
    kind: 'lead',
    cell: (each) => (
      <>
        <Cut text={each.name} /> <Code text={each.id} />
      </>
    ),
  },
  { title: 'State', cell: (each) => <State name={each.state} /> },
  { title: 'Silent for', align: 'right', cell: (each) => span(each.silentMs) },
  { title: 'Running for', align: 'right', cell: (each) => <Age since={each.startedAt} /> },
  { title: 'In hand', align: 'right', cell: (each) => count(each.inHand) },
  {
    title: 'Serves',
    cell: (each) => (
      <>
        <Cut text={[...each.consumers, ...each.relays.map((name) => `relay ${name}`)].join(', ') || '–'} />
        {each.down.map(({ relay, reason }) => (
          <span key={relay} class="paused">
            <State name="down" /> relay <bdi>{relay}</bdi> <Cut text={reason} />
          </span>
        ))}
      </>
    ),
  },
  { title: 'Lanes', kind: 'grow', cell: (each) => <Lanes lanes={each.lanes} /> },
]

function Lanes({ lanes }: Pick<WorkerView, 'lanes'>) {
  if (lanes.length === 0) return <span class="dim">–</span>
  return (
    <ul class="lanes">
      {lanes.map(({ scope, lanes: own, of }) => (
        <li key={scope}>
          <Cut text={scope} /> <meter min={0} max={Math.max(1, of)} value={own} aria-label={`Lanes of ${scope}`} />{' '}
          <span class="dim">
            {own} of {of}
          </span>
        </li>
      ))}
    </ul>
  )
}
