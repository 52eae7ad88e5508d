import type { OperationsView, OperationView } from '../../api.ts'
import { Facts } from '../parts/facts.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { OperationButtons, OperationCard, Progress, titleOf } from '../parts/operation.tsx'
import { Pager } from '../parts/pager.tsx'
import { ErrorBox, Link, State } from '../parts/text.tsx'
import { Time } from '../parts/time.tsx'
import { Where } from '../parts/where.tsx'
import { query } from '../state/api.ts'
import { usePoll } from '../state/poll.ts'
import { place } from '../state/router.ts'

/** Changes to many rows: those that run, and those that ended. */
export function Operations() {
  const polled = usePoll<OperationsView>(`operations${query({ cursor: place.value.query.get('cursor') })}`)
  return (
    <Frame
      title="Operations"
      lead="Changes to many messages. Which ones is frozen when an operation begins; workers go on with it even if everybody closes this page."
      polled={polled}
    >
      {({ operations, cursor }) => (
        <>
          {operations.length === 0 && cursor === null ? (
            <Empty title="No operation has been begun" command="npx hapax operations list">
              <p>
                Retry or discard a group of <Link to="failed">failed messages</Link>, here or by the command line, and
                its progress is shown here.
              </p>
            </Empty>
          ) : (
            operations.map((operation) => <OperationCard key={operation.id} operation={operation} />)
          )}
          <Pager cursor={cursor} shown={operations.length} />
        </>
      )}
    </Frame>
  )
}

/** One change to many rows. */
export function Operation({ id }: { readonly id: string }) {
  const polled = usePoll<OperationView>(`operations/${encodeURIComponent(id)}`)
  const known = polled.data.value
  return (
    <Frame
      title={known === undefined ? 'Operation' : titleOf(known)}
      lead={<Link to="operations">All operations</Link>}
      tools={known === undefined ? undefined : <OperationButtons operation={known} />}
      polled={polled}
    >
      {(operation) => (
        <>
          <Progress operation={operation} />
          <Facts
            facts={[
              ['state', <State name={operation.state} />],
              ['by', operation.actor],
              ['note', operation.note ?? '–'],
              ['began', <Time at={operation.createdAt} />],
              ['last change', <Time at={operation.changedAt} />],
              ['ended', <Time at={operation.endedAt} />],
              ['id', <code>{operation.id}</code>],
            ]}
          />
          <section>
            <h2>Which messages</h2>
            <Where where={operation.where} />
          </section>
          {operation.error === null ? null : (
            <section>
              <h2>The last one that could not be changed</h2>
              <ErrorBox error={operation.error} />
            </section>
          )}
        </>
      )}
    </Frame>
  )
}
