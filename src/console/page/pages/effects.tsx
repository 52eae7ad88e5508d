import type { EffectsView } from '../../api.ts'
import { Effects } from '../parts/effects.tsx'
import { type Filter, Filters } from '../parts/filters.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { Pager } from '../parts/pager.tsx'
import { query } from '../state/api.ts'
import { usePoll } from '../state/poll.ts'
import { place } from '../state/router.ts'

const FILTERS: readonly Filter[] = [
  {
    name: 'state',
    title: 'State',
    kind: 'choice',
    of: [
      ['unknown', 'unknown'],
      ['started', 'started'],
      ['done', 'done'],
      ['not-done', 'not done'],
    ],
  },
  { name: 'scope', title: 'Consumer', kind: 'text' },
]

/** External calls, those with an unknown outcome first of all. */
export function EffectsPage() {
  const params = place.value.query
  const state = params.get('state') ?? 'unknown'
  const polled = usePoll<EffectsView>(
    `effects${query({ state, scope: params.get('scope'), cursor: params.get('cursor') })}`,
  )
  return (
    <Frame
      title="Unknown effects"
      lead="External calls that began and whose outcome was lost. Only a person who looks at the provider knows whether they happened."
      filters={<Filters filters={FILTERS} label="Which effects" />}
      polled={polled}
    >
      {({ rows, cursor }) => (
        <>
          {rows.length === 0 && cursor === null ? (
            <Empty
              title={state === 'unknown' ? 'The outcome of every external call is known' : 'No effect matches'}
              command="npx hapax effects list --state unknown"
            >
              <p>
                A handler makes external calls by <code>effect()</code>. If a process dies, or a request times out, at
                the wrong moment, the call is listed here and is not repeated until it is settled.
              </p>
            </Empty>
          ) : (
            <Effects effects={rows} messages />
          )}
          <Pager cursor={cursor} shown={rows.length} />
        </>
      )}
    </Frame>
  )
}
