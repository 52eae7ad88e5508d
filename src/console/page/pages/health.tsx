import type { HealthView } from '../../api.ts'
import { Empty, Frame } from '../parts/frame.tsx'
import { Command, Link, State } from '../parts/text.tsx'
import { usePoll } from '../state/poll.ts'

type Finding = HealthView['findings'][number]

const ORDER = { error: 0, warning: 1, ok: 2 } as const

/** The page that shows more, by what was checked. */
const PAGES: Readonly<Record<string, readonly [path: string, title: string]>> = {
  failed: ['failed', 'Failed messages'],
  'held keys': ['keys', 'Held keys'],
  lanes: ['workers', 'Workers'],
  outbox: ['relays', 'Relays'],
  pauses: ['consumers', 'Consumers'],
  relays: ['relays', 'Relays'],
  workers: ['workers', 'Workers'],
}

/** Findings, worst first, each with what to do about it. */
export function Findings({ findings }: HealthView) {
  return (
    <ul class="findings">
      {[...findings]
        .sort((a, b) => ORDER[a.level] - ORDER[b.level])
        .map((each) => (
          <li key={`${each.check} ${each.message}`} class={`card ${each.level}`}>
            <p>
              <State name={each.level} /> <strong>{each.check}</strong> <More finding={each} />
            </p>
            <p>{each.message}</p>
            {each.level === 'ok' || each.advice === '' ? null : <p class="dim">{each.advice}</p>}
          </li>
        ))}
    </ul>
  )
}

function More({ finding: { check, level } }: { readonly finding: Finding }) {
  const page = level === 'ok' || !Object.hasOwn(PAGES, check) ? undefined : PAGES[check]
  return page === undefined ? null : <Link to={page[0]}>{page[1]}</Link>
}

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
            <Findings findings={findings} />
            <Command text="npx hapax doctor" />
          </>
        )
      }
    </Frame>
  )
}
