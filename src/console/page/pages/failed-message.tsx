import type { FailedView, PayloadView } from '../../api.ts'
import { edit, notEditable } from '../changes/edit.tsx'
import { discardOne, type Named, noteOn, releaseKey, retryOne } from '../changes/rows.tsx'
import { Do } from '../parts/buttons.tsx'
import { needsCheck } from '../parts/checked.tsx'
import { Effects } from '../parts/effects.tsx'
import { Facts } from '../parts/facts.tsx'
import { Frame } from '../parts/frame.tsx'
import { Payload } from '../parts/payload.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { ErrorBox, ErrorLine, Link, State } from '../parts/text.tsx'
import { Time } from '../parts/time.tsx'
import { confirm, tell } from '../state/actions.ts'
import { get } from '../state/api.ts'
import { count } from '../state/format.ts'
import { usePoll } from '../state/poll.ts'
import { may } from '../state/session.ts'
import { failedPath } from './failed.tsx'

/** One failed message: why, how often, its payload, and what can be done. */
export function FailedMessage({ seq }: { readonly seq: string }) {
  const path = `failed/${encodeURIComponent(seq)}`
  const polled = usePoll<FailedView>(path)
  return (
    <Frame
      title={`Failed message ${seq}`}
      lead={<Link to="failed">All failed messages</Link>}
      tools={polled.data.value === undefined ? undefined : <Tools view={polled.data.value} />}
      polled={polled}
    >
      {(view) => (
        <>
          {view.replacedBy === null ? null : (
            <div class="notice">
              An edit replaced it with{' '}
              <Link to={`message?id=${encodeURIComponent(view.replacedBy)}`}>{view.replacedBy}</Link>. It is kept for
              reference.
            </div>
          )}
          {view.error === null ? null : <ErrorBox error={view.error} />}
          <About view={view} />
          {view.effects.length === 0 ? null : (
            <section>
              <h2>External calls</h2>
              <Effects effects={view.effects} seq={view.seq} />
            </section>
          )}
          <section>
            <h2>Payload</h2>
            <Payload payload={view.payload} wholePath={`${path}?whole=1`} />
          </section>
          <section>
            <h2>Failures</h2>
            <p class="dim">{howOften(view.failures, view.history.length)}</p>
            <Table
              label="Failures"
              columns={failures}
              rows={view.history}
              keyOf={(each) => `${each.at} ${each.attempt}`}
            />
          </section>
        </>
      )}
    </Frame>
  )
}

function howOften(failures: number, kept: number): string {
  const times = failures === 1 ? 'once' : `${count(failures)} times`
  if (kept < failures) return `It failed ${times}; the last ${kept === 1 ? 'one is' : `${count(kept)} are`} kept.`
  return `It failed ${times}${failures === 1 ? '' : '; these are all of them'}.`
}

const failures: readonly Column<FailedView['history'][number]>[] = [
  { title: 'Attempt', align: 'right', kind: 'lead', cell: (each) => each.attempt },
  { title: 'When', cell: (each) => <Time at={each.at} /> },
  { title: 'Worker', cell: (each) => <code>{each.worker}</code> },
  { title: 'Error', kind: 'grow', cell: (each) => <ErrorLine error={each.error} /> },
]

function About({ view }: { readonly view: FailedView }) {
  return (
    <Facts
      facts={[
        ['id', <Link to={`message?id=${encodeURIComponent(view.id)}`}>{view.id}</Link>],
        ['type', <code>{view.type}</code>],
        [view.origin === 'outbox' ? 'relay' : 'consumer', view.scope],
        ['reason', <State name={view.reason} />],
        ['failed', <Time at={view.at} />],
        ['attempts', count(view.attempts ?? 0)],
        ['key', view.key === null ? '–' : <code>{view.key}</code>],
        ['source', <code>{view.source}</code>],
        [
          'alike',
          <Link to={failedPath({ origin: view.origin, scope: view.scope, type: view.type, errorHash: view.errorHash })}>
            the same error, {view.errorHash}
          </Link>,
        ],
        ...(view.held ? ([['held', 'Later messages of its key wait behind it.']] as const) : []),
      ]}
    />
  )
}

function Tools({ view }: { readonly view: FailedView }) {
  const { seq, type, id, scope, held, payload, origin, key } = view
  if (seq === null || view.replacedBy !== null) return null
  const row = { seq, type, id, scope, held, unchecked: needsCheck(view.error) }
  return (
    <>
      <Do needs="operator" action={() => retryOne(row)}>
        Retry …
      </Do>
      <Edit row={row} payload={payload} />
      {held && key !== null ? (
        <Do needs="operator" action={() => releaseKey({ origin, scope, key, id, waiting: null })}>
          Release its key …
        </Do>
      ) : null}
      <Do needs="operator" action={() => noteOn(row)}>
        Note …
      </Do>
      <Do needs="operator" danger action={() => discardOne(row)}>
        Discard …
      </Do>
    </>
  )
}

/** Opens the editor with all of the payload, of which the page may show a part only. */
function Edit({ row, payload }: { readonly row: Named; readonly payload: PayloadView | null }) {
  if (payload === null || !may('admin')) return null
  const why = notEditable(payload)
  const open = async (): Promise<void> => {
    try {
      const path = `failed/${encodeURIComponent(row.seq)}?whole=1`
      const all = payload.whole ? payload : (await get<FailedView>(path)).payload
      const objection = all === null ? 'The payload is gone.' : notEditable(all)
      if (all === null || objection !== undefined) tell(objection ?? '', 'wrong')
      else confirm(edit(row, all))
    } catch (error) {
      tell(error instanceof Error ? error.message : String(error), 'wrong')
    }
  }
  return (
    <button type="button" disabled={why !== undefined} title={why} onClick={open}>
      Edit …
    </button>
  )
}
