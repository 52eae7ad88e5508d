import type { HealthView } from '../../api.ts'
import { Empty, Frame } from '../parts/frame.tsx'
import { Command, State } from '../parts/text.tsx'
import { usePoll } from '../state/poll.ts'

const ORDER = { error: 0, warning: 1, ok: 2 } as const

/** What `hapax doctor` says. */
export function Health() {
  const polled = usePoll<HealthView>('health')
  return (
    <Frame title="Health" lead="What hapax doctor says about this database and its workers." polled={polled}>
      {({ findings }) =>
        findings.length === 0 ? (
          <Empty title="Nothing was checked" command="npx hapax doctor">
            <p>The checks look at the settings of the database, clocks, long transactions and workers.</p>
          </Empty>
        ) : (
          <>
            <ul class="findings">
              {[...findings]
                .sort((a, b) => ORDER[a.level] - ORDER[b.level])
                .map(({ check, level, message, advice }) => (
                  <li key={`${check} ${message}`} class={`card ${level}`}>
                    <p>
                      <State name={level} /> <strong>{check}</strong>
                    </p>
                    <p>{message}</p>
                    {level === 'ok' || advice === '' ? null : <p class="dim">{advice}</p>}
                  </li>
                ))}
            </ul>
            <Command text="npx hapax doctor" />
          </>
        )
      }
    </Frame>
  )
}
