import type { RetriesView } from '../../api.ts'
import { retryAllNow } from '../changes/rows.tsx'
import { Do } from '../parts/buttons.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { count } from '../state/format.ts'
import { usePoll } from '../state/poll.ts'
import { Rows } from './messages.tsx'

/** What will be tried again, the next one first. */
export function Retries() {
  const polled = usePoll<RetriesView>('retries')
  return (
    <Frame
      title="Retries"
      lead="Messages that failed at least once and will be tried again by themselves, the next one first."
      tools={polled.data.value?.rows.length ? <Tools /> : undefined}
      polled={polled}
    >
      {({ rows, more }) =>
        rows.length === 0 ? (
          <Empty title="Nothing waits for another attempt" command="npx hapax status">
            <p>
              A message whose handler threw an error is tried again after a delay that grows. While it waits for that,
              it is here; when its attempts are used up, it is among the failed ones.
            </p>
          </Empty>
        ) : (
          <>
            <Rows rows={rows} due />
            {more ? <p class="dim">These are the next {count(rows.length)}; more are due later.</p> : null}
          </>
        )
      }
    </Frame>
  )
}

function Tools() {
  return (
    <Do needs="operator" action={() => retryAllNow(['inbox', 'outbox'])}>
      Retry all now …
    </Do>
  )
}
