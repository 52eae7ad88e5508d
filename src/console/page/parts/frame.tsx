import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { type Problem, signedOut } from '../state/api.ts'
import { exact, now, span } from '../state/format.ts'
import type { Polled } from '../state/poll.ts'
import { visible } from '../state/visible.ts'
import { Command } from './text.tsx'

interface FrameProps<T> {
  readonly title: string
  /** One sentence under the title. */
  readonly lead?: ComponentChildren
  readonly tools?: ComponentChildren
  /** Conditions of what is shown: they stay, so that one that was refused can be corrected. */
  readonly filters?: ComponentChildren
  readonly polled: Polled<T>
  readonly children: (data: T) => ComponentChildren
}

/** A page: its title, what is wrong with its data, and the last good answer. */
export function Frame<T>({ title, lead, tools, filters, polled, children }: FrameProps<T>) {
  useEffect(() => {
    document.title = `${visible(title)} · hapax`
  }, [title])
  const data = polled.data.value
  return (
    <>
      <header class="page-head">
        <h1 tabIndex={-1}>{title}</h1>
        {tools === undefined ? null : <div class="tools">{tools}</div>}
        {lead === undefined ? null : <p class="lead">{lead}</p>}
      </header>
      <Trouble polled={polled} />
      {filters}
      {data === undefined ? <Loading polled={polled} /> : children(data)}
    </>
  )
}

function Loading<T>({ polled }: { readonly polled: Polled<T> }) {
  return polled.problem.value === undefined ? <p class="dim loading">Loading …</p> : null
}

/** Says that what is shown is old, and why. */
function Trouble<T>({ polled }: { readonly polled: Polled<T> }) {
  const problem = polled.problem.value
  const late = polled.lateSince.value
  const at = polled.at.value
  return (
    <div role="alert">
      {problem !== undefined ? (
        <ProblemBox problem={problem} since={at} />
      ) : late !== undefined && at !== undefined ? (
        <div class="notice warn">
          No answer for {span(Math.max(1_000, now.value - late))}. What you see is from{' '}
          {exact(new Date(at).toISOString())}.
        </div>
      ) : null}
    </div>
  )
}

/** What is wrong, in words; with when the last good answer came. */
export function ProblemBox({ problem, since }: { readonly problem: Problem; readonly since?: number | undefined }) {
  return (
    <div class="notice bad">
      {signedOut.value && problem.isRefusal ? (
        <p>
          <strong>You are signed out.</strong> {/* With a target, a link loads the page. */}
          <a href={location.href} target="_self">
            Sign in again
          </a>
        </p>
      ) : (
        <p>
          <strong>{problem.message}</strong> <code>{problem.code}</code>
        </p>
      )}
      {problem.advice === undefined ? null : <p>{problem.advice}</p>}
      {since === undefined ? null : (
        <p>
          What you see is the last good answer, from {exact(new Date(since).toISOString())}.{' '}
          {problem.isRefusal ? 'This page has stopped asking: reload it to try again.' : 'This page keeps trying.'}
        </p>
      )}
    </div>
  )
}

interface EmptyProps {
  readonly title: string
  readonly children: ComponentChildren
  readonly command?: string
}

/** Nothing is there: what would be, and what to do next. */
export function Empty({ title, children, command }: EmptyProps) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <div>{children}</div>
      {command === undefined ? null : <Command text={command} />}
    </div>
  )
}
