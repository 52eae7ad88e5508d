import type { LifeView, MomentView } from '../../api.ts'
import { Effects } from '../parts/effects.tsx'
import { Facts } from '../parts/facts.tsx'
import { Empty, Frame, ProblemBox } from '../parts/frame.tsx'
import { Payload } from '../parts/payload.tsx'
import { ErrorBox, Link } from '../parts/text.tsx'
import { Time } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { command } from '../state/commands.ts'
import { usePoll } from '../state/poll.ts'
import { place, setQuery } from '../state/router.ts'
import { session } from '../state/session.ts'

/** The life of one message: every place that knows it, and why it waits. */
export function Message() {
  const params = place.value.query
  const [id, source, scan] = [params.get('id') ?? '', params.get('source'), params.get('scan')]
  // A search of all rows is not repeated every two seconds.
  const polled = usePoll<LifeView>(`message${query({ id, source, scan })}`, { once: scan !== null })
  return (
    <Frame title="Message" lead={<code class="long">{id}</code>} polled={polled}>
      {(view) => <Life view={view} />}
    </Frame>
  )
}

function Life({ view }: { readonly view: LifeView }) {
  if (view.moments.length === 0) return <Unknown view={view} />
  return (
    <>
      {view.waiting.map(({ scope, origin, seq, why }) => (
        <div key={`${origin} ${seq}`} class="notice why">
          <h2>
            Why is it waiting
            {view.waiting.length > 1 ? (
              <>
                {' '}
                for <bdi>{scope}</bdi>
              </>
            ) : null}
            ?
          </h2>
          <p>{why}</p>
        </div>
      ))}
      {view.failed.map((seq) => (
        <div key={seq} class="notice bad">
          <p>
            It failed for good. <Link to={`failed/${encodeURIComponent(seq)}`}>See why, and what to do</Link>
          </p>
        </div>
      ))}
      <About view={view} />
      <section>
        <h2>What happened</h2>
        <ol class="moments">
          {view.moments.map((moment, index) => (
            <Moment key={index} moment={moment} />
          ))}
        </ol>
        {view.thorough ? null : <Thorough />}
      </section>
      {view.effects.length === 0 ? null : (
        <section>
          <h2>External calls</h2>
          <Effects effects={view.effects} />
        </section>
      )}
      {view.sources.length > 1 ? (
        view.sources.slice(0, MOST_PAYLOADS).map((source) => <PayloadOf key={source} id={view.id} source={source} />)
      ) : (
        <section>
          <h2>Payload</h2>
          <Payload payload={view.payload} wholePath={wholePath(view.id, view.sources[0])} />
        </section>
      )}
    </>
  )
}

function wholePath(id: string, source: string | undefined): string {
  return `message${query({ id, source, whole: 1 })}`
}

/** Of others that have the same id, the links above show the payload. */
const MOST_PAYLOADS = 3

/** The payload of one of the messages that have the same id. */
function PayloadOf({ id, source }: { readonly id: string; readonly source: string }) {
  const { data, problem } = usePoll<LifeView>(`message${query({ id, source })}`, { main: false, once: true })
  return (
    <section>
      <h2>
        Payload of the one from <code>{source}</code>
      </h2>
      {problem.value === undefined ? null : <ProblemBox problem={problem.value} />}
      {data.value === undefined ? null : <Payload payload={data.value.payload} wholePath={wholePath(id, source)} />}
    </section>
  )
}

function About({ view }: { readonly view: LifeView }) {
  return (
    <Facts
      facts={[
        ['type', view.type === null ? '–' : <code>{view.type}</code>],
        ['key', view.key === null ? '–' : <code>{view.key}</code>],
        ['source', <Sources view={view} />],
        [
          'trace',
          view.traceId === null ? (
            '–'
          ) : view.traceUrl === null ? (
            <code>{view.traceId}</code>
          ) : (
            <a href={view.traceUrl} target="_blank" rel="noreferrer">
              {view.traceId}
            </a>
          ),
        ],
      ]}
    />
  )
}

function Sources({ view: { sources, id } }: { readonly view: LifeView }) {
  if (sources.length < 2) return <code>{sources[0] ?? '–'}</code>
  return (
    <>
      <strong>{sources.length} different messages have this id:</strong>{' '}
      {sources.map((source) => (
        <Link key={source} to={`message${query({ id, source })}`}>
          <code>{source}</code>{' '}
        </Link>
      ))}
    </>
  )
}

const MARKS: Readonly<Record<MomentView['where'], string>> = {
  receipt: 'good',
  response: 'good',
  sent: 'good',
  effect: '',
  audit: 'person',
  failed: 'bad',
  attempt: 'warn',
  inbox: 'busy',
  outbox: 'busy',
  claim: 'busy',
}

function Moment({ moment }: { readonly moment: MomentView }) {
  const { at, where, scope, text, error, actor, note, seq } = moment
  return (
    <li class={MARKS[where]}>
      <p>
        <span class="tag">{where === 'audit' ? 'person' : where}</span>
        {scope === '' ? null : <strong>{scope}</strong>} <Time at={at} />
      </p>
      <p>
        {text}
        {where === 'failed' && seq !== null ? (
          <>
            {' '}
            <Link to={`failed/${encodeURIComponent(seq)}`}>Open</Link>
          </>
        ) : null}
      </p>
      {actor === null ? null : (
        <p class="dim">
          by <bdi>{actor}</bdi>
          {note === null ? null : (
            <>
              : <bdi>{note}</bdi>
            </>
          )}
        </p>
      )}
      {error === null ? null : <ErrorBox error={error} />}
    </li>
  )
}

function Thorough() {
  return (
    <p class="dim">
      Only the sources that are known were tried, because this id is no UUIDv7.{' '}
      <button type="button" onClick={() => setQuery({ scan: '1' })}>
        Search all rows
      </button>
    </p>
  )
}

function Unknown({ view }: { readonly view: LifeView }) {
  // The server shows no more of it to this person: it cannot be found by that.
  if (session.value?.payloads === false && /^sha256:[\da-f]{16}$/.test(view.id)) {
    return (
      <Empty title="Your role does not see the life of this request">
        <p>
          Its id is the key that a client has chosen for an HTTP request. Your role sees the hash of it, by which it
          cannot be found.
        </p>
      </Empty>
    )
  }
  return (
    <>
      <Empty title="No message with this id is known" command={command(['explain', view.id], { scan: true })}>
        <p>
          It may never have arrived, or its receipt may have been cleaned up since. Ids are compared exactly, with upper
          and lower case.
          {view.id === view.id.trim() ? null : (
            <>
              {' '}
              There are spaces around it:{' '}
              <Link to={`message${query({ id: view.id.trim() })}`}>search without them</Link>.
            </>
          )}
        </p>
      </Empty>
      {view.thorough ? null : <Thorough />}
    </>
  )
}
