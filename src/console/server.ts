// One way from a request to its answer: host, person, place, origin, method, role, fields, and only then the route.

import type { ProblemView, SessionView } from './api.ts'
import { bodyOf, personFor, queryOf, refuseForeign, refuseHost, refuseRole } from './guard.ts'
import type { ConsoleHapax } from './hapax.ts'
import { secured } from './headers.ts'
import { Helping } from './helping.ts'
import { Questions, Unanswered } from './limits.ts'
import { mayAs, type Person, type Settings } from './options.ts'
import { matched, PAGES, type Place, placeOf } from './paths.ts'
import { problemOf, Refusal, refused, UNEXPECTED } from './problems.ts'
import type { Named, Question, Route, Seen, WriteRoute } from './route.ts'
import { ROUTES } from './routes/index.ts'
import { StaticFiles } from './static.ts'
import { Trail } from './trail.ts'

/** What a console of its own process adds: a login. */
export interface SignIn {
  /** Answers a request to be let in; undefined: it is none. */
  enter(request: Request, segments: readonly string[], url: URL): Promise<Response | undefined>
  /** Whether everybody is shown the page, which says nothing by itself, and signs in from there. */
  readonly fromPage: boolean
  /** What somebody who is not known is told. */
  readonly advice: string
  readonly challenge: Readonly<Record<string, string>>
  /** How somebody who sent this request signs out; null: what sends it is no page. */
  signOut(request: Request): SessionView['signOut']
}

/** Answers the requests of a console. */
export class ConsoleServer {
  readonly #hapax: ConsoleHapax
  readonly #settings: Settings
  readonly #signIn: SignIn | undefined
  readonly #questions = new Questions()
  readonly #helping: Helping
  readonly #files = new StaticFiles()
  readonly #trail: Trail

  constructor(hapax: ConsoleHapax, settings: Settings, signIn?: SignIn) {
    this.#hapax = hapax
    this.#settings = settings
    this.#signIn = signIn
    this.#helping = new Helping(hapax, settings.report)
    this.#trail = new Trail(hapax, settings.report)
  }

  /** Ends what it does by itself. */
  close(): Promise<void> {
    return this.#helping.close()
  }

  /** Never throws. */
  async answer(request: Request): Promise<Response> {
    try {
      return secured(await this.#answer(request))
    } catch (error) {
      const found = problemOf(error)
      if (found === undefined) this.#settings.report(error)
      return secured(refused(found ?? UNEXPECTED, error))
    }
  }

  async #answer(request: Request): Promise<Response> {
    const url = new URL(request.url)
    refuseHost(url, this.#settings)
    const place = placeOf(url.pathname, this.#settings.basePath, (segments) => this.#isKnown(segments))
    if (place === undefined) throw nothingHere()
    const entered = await this.#signIn?.enter(request, place.segments, url)
    if (entered !== undefined) return entered
    const isApi = place.segments[0] === 'api'
    if (this.#signIn?.fromPage && !isApi) return this.#file(request, place)
    const person = await personFor(request, this.#settings)
    if (person === null) throw this.#stranger()
    return isApi ? this.#call(request, place, url, person) : this.#file(request, place)
  }

  #stranger(): Refusal {
    if (this.#signIn === undefined) return nothingHere()
    return new Refusal(401, 'signed-out', this.#signIn.advice, this.#signIn.challenge)
  }

  #isKnown(segments: readonly string[]): boolean {
    const [first = ''] = segments
    // Not everything that begins with it: `/api/ops` is a good place for a console.
    if (first === 'api') return ROUTES.some(({ path }) => matched(path, segments) !== undefined)
    return segments.length === 1 ? PAGES.includes(first) || this.#files.has(first) : isPage(segments)
  }

  #file(request: Request, { segments, root }: Place): Response {
    if (request.method !== 'GET' && request.method !== 'HEAD') throw wrongMethod('GET, HEAD')
    const [first = ''] = segments
    const file = segments.length === 1 ? this.#files.file(first, request) : undefined
    if (file !== undefined) return file
    if (segments.length > 0 && !isPage(segments)) throw nothingHere()
    return this.#files.page(root, request)
  }

  async #call(request: Request, { segments }: Place, url: URL, person: Person): Promise<Response> {
    refuseForeign(request, url, this.#settings)
    const { route, named } = routeOf(request.method, segments)
    refuseRole(person, route.role)
    const payloads = mayAs(person.role, this.#settings.payloads)
    const seen: Seen = {
      person,
      settings: this.#settings,
      payloads,
      signOut: this.#signIn?.signOut(request) ?? null,
      help: (id) => this.#helping.begin(id),
    }
    if (route.method === 'POST') return this.#change(route, named, request, seen)
    return this.#read(route.question(this.#hapax, named, queryOf(url), this.#settings), seen)
  }

  async #read(question: Question, seen: Seen): Promise<Response> {
    try {
      const data = await this.#questions.ask(question)
      await this.#looked(question, data, seen)
      return answered(question.view(data, seen))
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error
      const { last, cause } = error
      const found = problemOf(cause) ?? this.#unexpected(cause)
      if (last === undefined) return refused(found)
      // The database does not answer: the page must not wait for it a second time.
      void this.#looked(question, last.data, seen)
      return refused({ ...found, last: { ageMs: last.ageMs, answer: question.view(last.data, seen) } })
    }
  }

  async #looked(question: Question, data: unknown, seen: Seen): Promise<void> {
    const about = question.shows(data, seen)
    if (about !== undefined) await this.#trail.look(seen.person.actor, about)
  }

  /** The database may answer in ways that no one has seen yet. */
  #unexpected(error: unknown): ProblemView {
    this.#settings.report(error)
    return { ...UNEXPECTED, title: 'Service Unavailable', status: 503, code: 'store-failed' }
  }

  async #change(route: WriteRoute, named: Named, request: Request, seen: Seen): Promise<Response> {
    if (this.#settings.readOnly && !route.harmless) {
      throw new Refusal(403, 'read-only', 'This console is read-only: nothing can be changed here.')
    }
    const body = await bodyOf(request, route.large)
    const change = route.change(named, body)
    refuseRole(seen.person, change.role)
    // Everybody may ask: it is bounded like any other question.
    if (route.harmless) {
      const load = (): Promise<unknown> => change.act(this.#hapax, seen)
      const shows = (): undefined => undefined
      return this.#read({ key: JSON.stringify([route.path, body]), load, view: (data) => data, shows }, seen)
    }
    return answered(await this.#questions.change(() => change.act(this.#hapax, seen)))
  }
}

/** The page has addresses of one or two parts. */
function isPage(segments: readonly string[]): boolean {
  return segments.length <= 2 && PAGES.includes(segments[0] ?? '')
}

function routeOf(method: string, segments: readonly string[]): { readonly route: Route; readonly named: Named } {
  const fitting = ROUTES.flatMap((route) => {
    const named = matched(route.path, segments)
    return named === undefined ? [] : [{ route, named }]
  })
  const [first] = fitting
  if (first === undefined) throw nothingHere()
  const wanted = method === 'HEAD' ? 'GET' : method
  const found = fitting.find(({ route }) => route.method === wanted)
  if (found !== undefined) return found
  throw wrongMethod([...new Set(fitting.map(({ route }) => route.method))].join(', '))
}

function answered(view: unknown): Response {
  return new Response(JSON.stringify(view), { headers: { 'content-type': 'application/json' } })
}

function nothingHere(): Refusal {
  return new Refusal(404, 'not-found', 'There is nothing here.')
}

function wrongMethod(allow: string): Refusal {
  return new Refusal(405, 'method', `Only ${allow} is allowed here.`, { allow })
}
