import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { ErrorView } from '../../api.ts'
import { tell } from '../state/actions.ts'
import { href } from '../state/router.ts'

/** A link within the console. */
export function Link({ to, children, class: kind }: { to: string; children: ComponentChildren; class?: string }) {
  return (
    <a href={href(to)} class={kind}>
      {children}
    </a>
  )
}

/** Text as it is, of which a part may be hidden where there is no room; the title has all of it. */
export function Cut({ text }: { readonly text: string }) {
  return (
    <span class="cut" title={text}>
      {text}
    </span>
  )
}

/** A name, an id or a number, in the font of code. */
export function Code({ text }: { readonly text: string }) {
  return (
    <code class="cut" title={text}>
      {text}
    </code>
  )
}

const TONES: Readonly<Record<string, string>> = {
  failed: 'bad',
  dead: 'bad',
  down: 'bad',
  error: 'bad',
  stuck: 'warn',
  held: 'warn',
  retrying: 'warn',
  unknown: 'warn',
  warning: 'warn',
  paused: 'warn',
  started: 'warn',
  cancelled: 'warn',
  alive: 'good',
  ok: 'good',
  done: 'good',
  processed: 'good',
  running: 'busy',
  leased: 'busy',
}

/** The state of something: a word with its colour. */
export function State({ name }: { readonly name: string }) {
  return <span class={`state ${TONES[name] ?? ''}`}>{name}</span>
}

/** An error in a few lines. */
export function ErrorLine({ error }: { readonly error: ErrorView }) {
  return <Cut text={`${error.name}: ${error.message}`} />
}

/** An error in full. */
export function ErrorBox({ error }: { readonly error: ErrorView }) {
  return (
    <div class="error-box">
      <p>
        <strong>{error.name}</strong>: <bdi>{error.message}</bdi>
        {error.code === undefined || error.code === null ? null : (
          <>
            {' '}
            <code>{error.code}</code>
          </>
        )}
      </p>
      {error.stack === undefined || error.stack === null ? null : (
        <details>
          <summary>Stack</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard */}
          <pre tabIndex={0}>{error.stack}</pre>
        </details>
      )}
    </div>
  )
}

const copied = signal('')

/** The name of an option, which is not broken at its dashes. */
const OPTION = /(?<= )(--[a-z-]{1,20})(?=[ =]|$)/

/** A button that copies a text to the clipboard. */
export function Copy({ text, what }: { readonly text: string; readonly what: string }) {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      copied.value = text
    } catch {
      tell(`The browser does not let this page write to the clipboard: select ${what} instead.`, 'wrong')
    }
  }
  return (
    <button type="button" class="quiet" onClick={copy}>
      {copied.value === text ? 'Copied' : 'Copy'}
      <span class="hidden"> {what}</span>
    </button>
  )
}

/** A command to paste, with a button that copies it. */
export function Command({ text }: { readonly text: string }) {
  return (
    <div class="command">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard */}
      <pre tabIndex={0}>
        {text.split(OPTION).map((part, index) => (index % 2 === 0 ? part : <span class="option">{part}</span>))}
      </pre>
      <Copy text={text} what="the command" />
    </div>
  )
}
