import { signal } from '@preact/signals'
import type { PostedRetryNow, RetriedView } from '../../api.ts'
import { EffectsChecked } from '../parts/checked.tsx'
import type { Action } from '../state/actions.ts'
import { post } from '../state/api.ts'
import { command, type Options, scopeOption } from '../state/commands.ts'
import { count, plural } from '../state/format.ts'
import { go } from '../state/router.ts'

type Origin = 'inbox' | 'outbox'

/** What a dialog says of a failed message. */
export interface Named {
  readonly seq: string
  readonly type: string
  readonly id: string
  readonly scope: string
  readonly held?: boolean
  /** Its effects have to be checked before a retry. */
  readonly unchecked?: boolean
}

function sentence({ type, id, scope }: Named) {
  return (
    <>
      <code>{type}</code> with the id <code>{id}</code> of <code>{scope}</code>
    </>
  )
}

function at(seq: string): string {
  return `failed/${encodeURIComponent(seq)}`
}

export function retryOne(row: Named): Action {
  const checked = signal(false)
  const needed = row.unchecked === true
  return {
    title: `Retry message ${row.seq}`,
    verb: 'Retry',
    text: (
      <p>
        {sentence(row)} becomes due at once, under its own id, with its attempts at zero
        {row.held ? ', from its place in front of its key' : ''}.
      </p>
    ),
    ...(needed && { fields: () => <EffectsChecked checked={checked} what="I have checked its effects." /> }),
    ready: () => !needed || checked.value,
    command: (note) => command(['failed', 'retry', row.seq], { ...(needed && { 'effects-checked': true }), note }),
    run: async (note) => {
      await post(`${at(row.seq)}/retry`, { ...(needed && { effectsChecked: true }), ...(note && { note }) })
      return `Message ${row.seq} is due again.`
    },
  }
}

/** A message that failed and waits for its next attempt becomes due at once. */
export function retryNow(origin: Origin, row: Named): Action {
  return {
    title: `Retry message ${row.seq} now`,
    verb: 'Retry now',
    text: <p>{sentence(row)} is tried at once instead of at its next attempt. The attempt counts.</p>,
    command: (note) => command(['messages', 'retry', row.seq], { ...originOption(origin), note }),
    run: async (note) => {
      await post(`messages/${origin}/${encodeURIComponent(row.seq)}/retry`, { ...(note && { note }) })
      return `Message ${row.seq} is due now.`
    },
  }
}

/** The same for all that match. */
export function retryAllNow(origins: readonly Origin[], where: Omit<PostedRetryNow, 'origin' | 'note'> = {}): Action {
  const { scope, ...others } = where
  const all = Object.keys(where).length === 0
  return {
    title: 'Retry messages now',
    verb: 'Retry now',
    text: (
      <p>
        {all ? 'All messages that wait' : 'All messages that match and wait'} for their next attempt become due at once,
        the oldest first. The attempts count.
      </p>
    ),
    command: (note) =>
      origins
        .map((origin) => {
          const which = { ...(scope === undefined ? originOption(origin) : scopeOption(origin, scope)), ...others }
          return command(['messages', 'retry'], { ...which, ...(all && { all: true }), note, yes: true })
        })
        .join(' &&\n'),
    run: async (note) => {
      const made: RetriedView[] = []
      for (const origin of origins) {
        made.push(await post<RetriedView>('messages/retry', { origin, ...where, ...(note && { note }) }))
      }
      const done = made.reduce((sum, each) => sum + each.done, 0)
      const more = made.some(({ stopped }) => stopped) ? ' There are more: repeat it for them.' : ''
      return `${plural(done, 'message')} ${done === 1 ? 'is' : 'are'} due now.${more}`
    },
  }
}

function originOption(origin: Origin): Options {
  return origin === 'outbox' ? { origin } : {}
}

export function discardOne(row: Named): Action {
  return {
    title: `Discard message ${row.seq}`,
    verb: 'Discard for good',
    danger: true,
    text: (
      <p>
        {sentence(row)} is <strong>deleted for good</strong>
        {row.held ? ', and its key goes on without it' : ''}. Its receipt stays: another delivery of it is a duplicate.
        This cannot be undone.
      </p>
    ),
    command: (note) => command(['failed', 'discard', row.seq], { note }),
    run: async (note) => {
      await post(`${at(row.seq)}/discard`, { ...(note && { note }) })
      if (location.pathname.endsWith(`/${at(row.seq)}`)) go('failed')
      return `Message ${row.seq} was discarded.`
    },
  }
}

export function noteOn(row: Named): Action {
  return {
    title: `Add a note to message ${row.seq}`,
    verb: 'Add note',
    note: 'required',
    text: <p>Nothing else is changed. The note is shown in the audit log and in the life of {sentence(row)}.</p>,
    command: (note) => command(['failed', 'note', row.seq], { note: note || '…' }),
    run: async (note) => {
      await post(`${at(row.seq)}/note`, { note })
      return `The note was added to message ${row.seq}.`
    },
  }
}

export function republish(row: Named): Action {
  return {
    title: `Send message ${row.seq} again`,
    verb: 'Send again',
    text: (
      <p>
        {sentence(row)} is copied back into the outbox under its own id and sent once more. Consumers that processed it
        before take it for a duplicate.
      </p>
    ),
    command: (note) => command(['sent', 'republish', row.seq], { note }),
    run: async (note) => {
      await post(`sent/${encodeURIComponent(row.seq)}/republish`, { ...(note && { note }) })
      return `Message ${row.seq} is in the outbox again.`
    },
  }
}

/** What a dialog says of a held key. */
export interface Held {
  readonly origin: 'inbox' | 'outbox'
  readonly scope: string
  readonly key: string
  readonly id: string
  /** How many wait behind it; null: not known here. */
  readonly waiting: number | null
}

export function releaseKey({ origin, scope, key, id, waiting }: Held): Action {
  return {
    title: (
      <>
        Release the key <bdi>{key}</bdi>
      </>
    ),
    verb: 'Release',
    text: (
      <p>
        The key <code>{key}</code> of <code>{scope}</code> goes on without the message <code>{id}</code>, which stays in
        the failed store. {behind(waiting)} processed <strong>although the one before them was not</strong>.
      </p>
    ),
    command: (note) => command(['keys', 'release', key], { ...scopeOption(origin, scope), note, yes: true }),
    run: async (note) => {
      await post('keys/release', { origin, scope, key, ...(note && { note }) })
      return (
        <>
          The key <bdi>{key}</bdi> of <bdi>{scope}</bdi> is released.
        </>
      )
    },
  }
}

function behind(waiting: number | null): string {
  if (waiting === null) return 'Messages that wait behind it are'
  return waiting === 1 ? 'One message that waits behind it is' : `${count(waiting)} messages that wait behind it are`
}

/** Pauses or resumes a consumer or a relay. */
export function pauseOrResume(kind: 'consumers' | 'relays', name: string, verb: 'pause' | 'resume'): Action {
  const noun = kind === 'consumers' ? 'consumer' : 'relay'
  const pausing =
    kind === 'consumers'
      ? 'Workers take nothing more of it within a second; what runs, runs to its end. Messages wait until it is resumed.'
      : 'Workers send nothing more through it within a second. Messages wait in the outbox until it is resumed.'
  return {
    title: (
      <>
        {verb === 'pause' ? 'Pause' : 'Resume'} the {noun} <bdi>{name}</bdi>
      </>
    ),
    verb: verb === 'pause' ? 'Pause' : 'Resume',
    text: <p>{verb === 'pause' ? pausing : 'Workers serve it again within a second, the oldest message first.'}</p>,
    command: (note) => command([kind, verb, name], { note }),
    run: async (note) => {
      await post(`${kind}/${encodeURIComponent(name)}/${verb}`, { ...(note && { note }) })
      return (
        <>
          The {noun} <bdi>{name}</bdi> is {verb === 'pause' ? 'paused' : 'resumed'}.
        </>
      )
    },
  }
}
