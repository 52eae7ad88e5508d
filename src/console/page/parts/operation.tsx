import type { OperationView } from '../../api.ts'
import { changeOperation } from '../changes/operation.tsx'
import { count, plural, span } from '../state/format.ts'
import { Do } from './buttons.tsx'
import { Link, State } from './text.tsx'
import { Age } from './time.tsx'

const DOING = { retry: 'Retry', discard: 'Discard', republish: 'Send again' } as const

/** What an operation does, in a few words. */
export function titleOf({ kind, total }: OperationView): string {
  return `${DOING[kind]} ${plural(total, 'message')}`
}

/** How far an operation is: everybody who looks sees the same. */
export function Progress({ operation }: { readonly operation: OperationView }) {
  const { total, done, gone, errors, state, perSecond } = operation
  const visited = done + gone + errors
  const percent = total === 0 ? 100 : Math.floor((visited / total) * 100)
  const left = Math.max(0, total - visited)
  return (
    <div class={`progress ${state}`}>
      <progress max={Math.max(1, total)} value={visited} aria-label={titleOf(operation)} />
      <p>
        <strong>{percent} %</strong> · {count(visited)} of {count(total)}
        {gone > 0 ? ` · ${count(gone)} changed by others before` : ''}
        {errors > 0 ? <span class="bad"> · {count(errors)} could not be changed</span> : null}
        {perSecond === null ? '' : ` · at most ${perSecond} per second`}
        {state === 'running' && perSecond !== null && left > 0
          ? ` · about ${span((left / perSecond) * 1_000)} left`
          : ''}
      </p>
    </div>
  )
}

/** An operation with its buttons. */
export function OperationCard({ operation }: { readonly operation: OperationView }) {
  return (
    <article class="card operation">
      <header>
        <h3>
          <Link to={`operations/${operation.id}`}>{titleOf(operation)}</Link>
        </h3>
        <State name={operation.state} />
        <span class="dim">
          by <bdi>{operation.actor}</bdi>,{' '}
          {operation.endedAt === null ? (
            <>
              for <Age since={operation.createdAt} />
            </>
          ) : (
            `took ${span(Date.parse(operation.endedAt) - Date.parse(operation.createdAt))}`
          )}
        </span>
        <OperationButtons operation={operation} />
      </header>
      <Progress operation={operation} />
      {operation.state === 'running' && !operation.worked ? (
        <p class="dim">No process works on it at the moment; the next worker that looks goes on.</p>
      ) : null}
    </article>
  )
}

/** Pause, resume and cancel, as far as they make sense. */
export function OperationButtons({ operation }: { readonly operation: OperationView }) {
  const { state } = operation
  if (state === 'done' || state === 'cancelled') return null
  return (
    <span class="row-buttons">
      <Do needs="operator" action={() => changeOperation(operation, state === 'running' ? 'pause' : 'resume')}>
        {state === 'running' ? 'Pause …' : 'Resume …'}
      </Do>
      <Do needs="operator" danger action={() => changeOperation(operation, 'cancel')}>
        Cancel …
      </Do>
    </span>
  )
}
