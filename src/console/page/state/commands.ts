import type { FailedQueryView } from '../../api.ts'
import { UNSEEN } from './visible.ts'

/** A word as a POSIX shell takes it. Characters that are not seen are written so that a terminal shows them and bash reads them. */
export function shellWord(text: string): string {
  // A = in front is the path of a program to zsh.
  if (/^(?!=)[\w@%+=:,./-]+$/.test(text)) return text
  if (text.replaceAll('\n', '').search(UNSEEN) < 0) return `'${text.replaceAll("'", "'\\''")}'`
  const escaped = text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n')
  return `$'${escaped.replaceAll(UNSEEN, bytesOf)}'`
}

/** As the bytes of UTF-8: others than ASCII have two. */
function bytesOf(character: string): string {
  return [...new TextEncoder().encode(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
}

/** Options by name; undefined and empty ones are left out, `true` is an option without a value. */
export type Options = Readonly<Record<string, string | number | true | undefined | null>>

/** `npx hapax …`, to paste. */
export function command(words: readonly string[], options: Options = {}): string {
  const named = words[0] === 'explain' ? 1 : 2
  // What begins with a dash would be read as an option.
  const dashed = words.some((word, index) => index >= named && word.startsWith('-'))
  const given = Object.entries(options).flatMap(([name, value]) => optionWords(name, value))
  const names = words.slice(0, named).map(shellWord)
  const rest = words.slice(named).map(shellWord)
  return ['npx hapax', ...names, ...(dashed ? [...given, '--', ...rest] : [...rest, ...given])].join(' ')
}

function optionWords(name: string, value: Options[string]): string[] {
  if (value === undefined || value === null || value === '') return []
  if (value === true) return [`--${name}`]
  const text = String(value)
  return [text.startsWith('-') ? `--${name}=${shellWord(text)}` : `--${name} ${shellWord(text)}`]
}

/** `--consumer billing`, `--relay default`. */
export function scopeOption(origin: 'inbox' | 'outbox' | undefined, scope: string | undefined): Options {
  return scope === undefined ? {} : { [origin === 'outbox' ? 'relay' : 'consumer']: scope }
}

/** `hapax failed retry …` of these conditions. A name alone may be that of a consumer and of a relay: that takes two commands. */
export function failedCommand(kind: 'retry' | 'discard', where: FailedQueryView, options: Options): string {
  const { origin, scope, type, reason, errorHash, since, until } = where
  const rest = { type, reason, error: errorHash, since, until, ...options }
  if (scope === undefined) return command(['failed', kind], { origin, ...rest })
  const origins = origin === undefined ? (['inbox', 'outbox'] as const) : [origin]
  return origins.map((each) => command(['failed', kind], { ...scopeOption(each, scope), ...rest })).join(' &&\n')
}
