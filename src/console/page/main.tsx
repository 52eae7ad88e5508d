import './styles/index.css'
import { render } from 'preact'
import { useEffect } from 'preact/hooks'
import { Audit } from './pages/audit.tsx'
import { Consumers } from './pages/consumers.tsx'
import { EffectsPage } from './pages/effects.tsx'
import { Failed } from './pages/failed.tsx'
import { FailedList } from './pages/failed-list.tsx'
import { FailedMessage } from './pages/failed-message.tsx'
import { Health } from './pages/health.tsx'
import { Keys } from './pages/keys.tsx'
import { Message } from './pages/message.tsx'
import { Messages } from './pages/messages.tsx'
import { Operation, Operations } from './pages/operations.tsx'
import { Overview } from './pages/overview.tsx'
import { Relays } from './pages/relays.tsx'
import { Retries } from './pages/retries.tsx'
import { Workers } from './pages/workers.tsx'
import { ProblemBox } from './parts/frame.tsx'
import { Layout } from './parts/layout.tsx'
import { Link } from './parts/text.tsx'
import { showUnseen } from './parts/unseen.ts'
import { listenToKeys } from './state/keys.ts'
import { followLinks, match, place } from './state/router.ts'
import { enter, leftBy, refusal, session, watchAddress } from './state/session.ts'

type Found = Readonly<Record<string, string>>

const ROUTES: readonly (readonly [pattern: string, page: (found: Found) => preact.JSX.Element])[] = [
  ['', () => <Overview />],
  ['consumers', () => <Consumers />],
  ['relays', () => <Relays />],
  ['messages', () => <Messages />],
  ['message', () => <Message key={place.value.query.toString()} />],
  ['failed', () => <Failed />],
  ['failed/list', () => <FailedList />],
  ['failed/:seq', ({ seq = '' }) => <FailedMessage key={seq} seq={seq} />],
  ['keys', () => <Keys />],
  ['effects', () => <EffectsPage />],
  ['workers', () => <Workers />],
  ['retries', () => <Retries />],
  ['operations', () => <Operations />],
  ['operations/:id', ({ id = '' }) => <Operation key={id} id={id} />],
  ['audit', () => <Audit />],
  ['health', () => <Health />],
]

function Page() {
  const { path } = place.value
  for (const [pattern, page] of ROUTES) {
    const found = match(pattern, path)
    if (found !== undefined) return page(found)
  }
  return <Nowhere />
}

function Nowhere() {
  useEffect(() => {
    document.title = 'Not found · hapax'
  }, [])
  return (
    <div class="empty">
      <h1 tabIndex={-1}>There is no such page</h1>
      <p>
        <Link to="">Go to the overview</Link>
      </p>
    </div>
  )
}

function App() {
  const refused = refusal.value
  if (session.value !== undefined) {
    return (
      <Layout>
        <Page />
      </Layout>
    )
  }
  if (leftBy.value !== null) return <Left />
  if (refused === undefined) return <p class="loading dim">Loading …</p>
  return (
    <main class="refused">
      <h1>hapax</h1>
      <ProblemBox problem={refused} />
      <p>
        A console started by <code>npx hapax console</code> is entered by the address that it prints, once. Start it
        again for another one.
      </p>
    </main>
  )
}

function Left() {
  return (
    <main class="refused">
      <h1>hapax</h1>
      <p>You are signed out.</p>
      {leftBy.value === 'password' ? (
        <p>
          {/* With a target, a link loads the page. */}
          <a href={location.href} target="_self">
            Sign in again
          </a>
        </p>
      ) : (
        <p>
          Start <code>npx hapax console</code> again for another address.
        </p>
      )}
    </main>
  )
}

showUnseen()
followLinks()
listenToKeys()
watchAddress()
void enter()
const app = document.querySelector('#app')
if (app !== null) render(<App />, app)
