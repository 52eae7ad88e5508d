// Routes are data: method, path, the least role, which fields they take, and what they do. `server.ts` is the only one that calls them,
// after every check.

import type { By } from '../admin/index.ts'
import { noOthers } from '../base/index.ts'
import type { AuditSubject } from '../contracts/index.ts'
import type { Role, SessionView } from './api.ts'
import { checkedFields, type Fields, noteField, optional } from './fields.ts'
import type { ConsoleHapax } from './hapax.ts'
import type { Asked } from './limits.ts'
import type { Person, Settings } from './options.ts'

/** Whose eyes an answer is for. */
export interface Seen {
  readonly person: Person
  readonly settings: Settings
  /** Whether this person may see payloads, headers and stacks. */
  readonly payloads: boolean
  /** How this person signs out here; null: where they signed in. */
  readonly signOut: SessionView['signOut']
  /** An operation was begun: it goes on here, too, in case no worker is alive. */
  help(operation: string): void
}

/** A question to the database. It is the same one for everybody; `view` makes of its answer what this person may see. */
export interface Question extends Asked {
  view(data: unknown, seen: Seen): unknown
  /** The message whose payload the answer shows, if it does. */
  shows(data: unknown, seen: Seen): AuditSubject | undefined
}

/** What all routes have. */
interface AnyRoute {
  /** After the base path: `api/failed/:seq`. */
  readonly path: string
  /** The least role that may use it. */
  readonly role: Role
  /** Names in the query, for GET, or in the body, for POST. */
  readonly takes: readonly string[]
}

/** A route that reads. */
export interface ReadRoute extends AnyRoute {
  readonly method: 'GET'
  /** Throws `invalid-option` if a field is not what it should be. */
  question(hapax: ConsoleHapax, path: Named, query: object, settings: Settings): Question
}

/** A route that changes something. */
export interface WriteRoute extends AnyRoute {
  readonly method: 'POST'
  /** Whether its body may be as large as a message. */
  readonly large: boolean
  /** It only asks, by POST because of what it sends: it is allowed where nothing may be changed. */
  readonly harmless: boolean
  /** Throws `invalid-option` if a field is not what it should be. */
  change(path: Named, body: object): Change
}

/** A change whose fields have been checked. */
interface Change {
  /** The least role for exactly this. */
  readonly role: Role
  act(hapax: ConsoleHapax, seen: Seen): Promise<unknown>
}

export type Route = ReadRoute | WriteRoute

/** The parts of a path that are no fixed words. */
export type Named = Readonly<Record<string, string>>

/** Describes a route that reads. */
export function read<P extends object, D>(route: {
  readonly path: string
  readonly role: Role
  readonly fields: Fields<P>
  readonly load: (hapax: ConsoleHapax, params: P, settings: Settings) => Promise<D>
  readonly view: (data: D, seen: Seen, params: P) => unknown
  /** Whether an answer is small enough to be remembered. @default yes */
  readonly keeps?: (data: D) => boolean
  /** The message whose payload the answer has, if it has one. */
  readonly shows?: (data: D) => AuditSubject | undefined
}): ReadRoute {
  const { path, role, fields, load, view, keeps = () => true, shows = () => undefined } = route
  const takes = queryNames(path, fields)
  return {
    method: 'GET',
    path,
    role,
    takes,
    question: (hapax, named, query, settings) => {
      noOthers('the query', query, takes)
      const params = checkedFields<P>('the query', fields, { ...query, ...named })
      return {
        key: JSON.stringify([path, params]),
        load: () => load(hapax, params, settings),
        // What `load` of this very route has returned.
        view: (data, seen) => view(data as D, seen, params),
        keeps: (data) => keeps(data as D),
        shows: (data, { payloads }) => (payloads ? shows(data as D) : undefined),
      }
    },
  }
}

/** Describes a route that changes something. Each takes a note for the audit. */
export function write<P extends object>(route: {
  readonly path: string
  readonly role: Role
  readonly fields: Fields<P>
  readonly large?: boolean
  readonly harmless?: boolean
  /** @default `role` */
  readonly roleFor?: (params: P) => Role
  readonly act: (hapax: ConsoleHapax, params: P, by: By, seen: Seen) => Promise<unknown>
}): WriteRoute {
  const { path, role, fields, large = false, harmless = false, roleFor = () => role, act } = route
  const takes = [...queryNames(path, fields), 'note']
  return {
    method: 'POST',
    path,
    role,
    large,
    harmless,
    takes,
    change: (named, body) => {
      noOthers('the body', body, takes)
      const { note: given, ...others }: { readonly note?: unknown } = body
      const params = checkedFields<P>('the body', fields, { ...others, ...named })
      const note = optional(noteField)('note', given)
      return {
        role: roleFor(params),
        act: (hapax, seen) => {
          const { actor } = seen.person
          return act(hapax, params, note === undefined ? { actor } : { actor, note }, seen)
        },
      }
    },
  }
}

function queryNames(path: string, fields: object): readonly string[] {
  return Object.keys(fields).filter((name) => !path.split('/').includes(`:${name}`))
}
