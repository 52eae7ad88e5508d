import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { dismiss, toasts } from '../state/actions.ts'
import { now, span } from '../state/format.ts'
import { helpShown, KEYS, menuOpen, PAGES } from '../state/keys.ts'
import { current, paused } from '../state/poll.ts'
import { go, href, place } from '../state/router.ts'
import { session, signOut } from '../state/session.ts'
import { toggleTheme } from '../state/theme.ts'
import { Dialog } from './dialog.tsx'
import { Link } from './text.tsx'

/** What is around every page. */
export function Layout({ children }: { readonly children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Bar />
      <div class="columns">
        <Navigation />
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Toasts />
      <Dialog />
      <Help />
    </>
  )
}

function Bar() {
  const known = session.value
  return (
    <header class="bar">
      <button
        type="button"
        class="menu quiet"
        aria-expanded={menuOpen.value}
        aria-controls="navigation"
        onClick={() => {
          menuOpen.value = !menuOpen.value
        }}
      >
        <span aria-hidden="true">☰</span>
        <span class="hidden">Pages</span>
      </button>
      <Link to="" class="brand">
        hapax
      </Link>
      <Search />
      <Freshness />
      <button type="button" class="quiet wide-only" onClick={toggleTheme} title="Light or dark (d)">
        <span aria-hidden="true">◐</span>
        <span class="hidden">Light or dark</span>
      </button>
      <button type="button" class="quiet wide-only" title="Keys (?)" onClick={() => (helpShown.value = true)}>
        <span aria-hidden="true">?</span>
        <span class="hidden">Keys</span>
      </button>
      {known === undefined ? null : (
        <span class="who" title={`${known.actor}, ${known.role}, ${known.store}, hapax ${known.version}`}>
          <span class="cut">{known.actor}</span>
          <span class="state">{known.readOnly ? 'read only' : known.role}</span>
        </span>
      )}
    </header>
  )
}

function Search() {
  const text = useSignal('')
  const submit = (event: Event): void => {
    event.preventDefault()
    const id = text.peek()
    if (id.trim() !== '') go(`message?id=${encodeURIComponent(id)}`)
  }
  return (
    <search>
      <form onSubmit={submit}>
        <input
          id="search"
          type="text"
          autocomplete="off"
          spellcheck={false}
          placeholder="Find a message by its id"
          aria-label="Find a message by its id"
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
          }}
        />
        <kbd class="slash">/</kbd>
      </form>
    </search>
  )
}

/** How old the page is, and the switch that stops its refreshing. */
function Freshness() {
  const polled = current.value
  const at = polled?.at.value
  const wrong = polled?.problem.value !== undefined
  // Read, so that this is drawn again every second.
  void now.value
  const age = at === undefined ? 'no data yet' : `updated ${agoText(Date.now() - at)}`
  return (
    <div class={`fresh ${wrong ? 'bad' : paused.value ? 'warn' : ''}`}>
      <span class="dot" aria-hidden="true" />
      <span class="wide-only">{paused.value ? `paused, ${age}` : wrong ? `failing, ${age}` : age}</span>
      <button
        type="button"
        class="quiet"
        title="Pause or resume the refreshing (p)"
        aria-pressed={paused.value}
        onClick={() => {
          paused.value = !paused.value
        }}
      >
        <span aria-hidden="true">{paused.value ? '▶' : '❚❚'}</span>
        <span class="hidden">Pause the refreshing</span>
      </button>
    </div>
  )
}

function agoText(ms: number): string {
  return ms < 1_000 ? 'just now' : `${span(ms)} ago`
}

function Navigation() {
  const { path } = place.value
  const here = path.split('/')[0] ?? ''
  return (
    <nav id="navigation" class={menuOpen.value ? 'open' : ''} aria-label="Pages">
      <ul>
        {PAGES.map(({ path: to, title, key }) => (
          <li key={to}>
            <a
              href={href(to)}
              aria-current={here === to || (to === 'messages' && here === 'message') ? 'page' : undefined}
              onClick={() => {
                menuOpen.value = false
              }}
            >
              {title}
              <kbd class="go">g {key}</kbd>
            </a>
          </li>
        ))}
        {session.value?.signOut == null ? null : (
          <li class="sign-out">
            <button type="button" class="quiet" onClick={signOut}>
              Sign out
            </button>
          </li>
        )}
      </ul>
    </nav>
  )
}

function Toasts() {
  return (
    <div class="toasts" aria-live="polite" role="status">
      {toasts.value.map(({ id, text, kind }) => (
        <div key={id} class={`toast ${kind}`}>
          <span>{text}</span>
          <button type="button" class="quiet" onClick={() => dismiss(id)}>
            <span aria-hidden="true">×</span>
            <span class="hidden">Dismiss</span>
          </button>
        </div>
      ))}
    </div>
  )
}

function Help() {
  const element = useRef<HTMLDialogElement>(null)
  const shown = helpShown.value
  useLayoutEffect(() => {
    if (shown) element.current?.showModal()
    else element.current?.close()
  }, [shown])
  return (
    <dialog ref={element} class="plain" aria-labelledby="keys-title" onClose={() => (helpShown.value = false)}>
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
        {PAGES.map(({ key, title }) => (
          <div key={key}>
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{title}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" onClick={() => (helpShown.value = false)}>
          Close
        </button>
      </div>
    </dialog>
  )
}
